"""Options of head selection: the choices of each, and their sources.

Where the head-selection paper and its released code ("official") differ, both forms are available; the first name is
the default. The released code also draws noise in evaluation, at every step of decoding; here evaluation is
deterministic.

Numbers of updates may be a share of all updates of the run, a number between 0 and 1: `noise_steps: 0.8` trains the
last fifth without noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.option_checks import OptionError, check_fields, one_of, read


@dataclass(frozen=True)
class SelectionOptions:
    """Options of head selection, the keys of the `selection:` section of an attention.

    Attributes:
        strategy: "none" is attention without selection, and the other options are ignored; "static" gives each family
            of languages or domains its own H heads; "group" selects one of the candidates of each slot; "subset"
            selects any H heads of the pool.
        pool: Number of heads P in the pool. With "static" it is H for each family.
        by: Conditions that heads are selected by: lang, tgtlang, domain. With several conditions each has logits, and
            the logits are added.
        conditions: Values of each condition, in the order of their indices; training fills them in from the data.
        families: Lists of values for "static"; every value must be in exactly one list. By default each value is a
            family.
        default_condition: The value to use, by condition, if a sample's value is unknown or not given. Without a
            default this is an error.
        subset_order: Order of the selected heads with "subset": by "index" (paper) or by "score" (released).
        group_layout: Candidates of slot g with "group": "strided" g, g + H, ... (released), or "contiguous".
        tau: Temperature of (4). It does not change the ranking of heads; it divides the gradient of the logits.
        tau_schedule: "constant" (released), or "linear" or "exp" from `tau` to `tau_final` in `tau_steps` updates. The
            paper says that a temperature approaches 0 and gives no schedule.
        tau_final: Temperature at the end of the schedule.
        tau_steps: Number of updates of the schedule.
        noise_steps: Number of updates that draw noise; later ones train the heads of evaluation (ours). By default all
            do (released).
        noise_schedule: Factor of the noise in these updates: "constant" 1 (released), or "linear" from 1 to 0 (ours).
        logits_learning_rate_scale: Factor of the logits' steps with any optimizer (ours). Released: 1, with which Adam
            moves a logit by at most about the learning rate in an update; the noise has a standard deviation of 1.8.
        kl_weight: Weight of the KL term of (3); the KL of a sample is the mean over layers. Released: 0.
        kl_warmup_steps: Number of updates over which the weight grows from 0.
        kl_form: "bernoulli" is the KL of (3) between Bernoulli distributions, summed over the pool; "official" is the
            term of the released code, the mean over the pool.
    """

    strategy: str = one_of("none", "static", "group", "subset")
    pool: int = 8
    by: str | Sequence[str] = ("lang",)
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    families: Sequence[Sequence[str]] | None = None
    default_condition: Mapping[str, str] = field(default_factory=dict)
    subset_order: str = one_of("index", "score")
    group_layout: str = one_of("strided", "contiguous")
    tau: float = 5.0
    tau_schedule: str = one_of("constant", "linear", "exp")
    tau_final: float = 0.5
    tau_steps: float = 20000.0
    noise_steps: float | None = None
    noise_schedule: str = one_of("constant", "linear")
    logits_learning_rate_scale: float = 1.0
    kl_weight: float = 0.0
    kl_warmup_steps: float = 0.0
    kl_form: str = one_of("bernoulli", "official")

    def __post_init__(self):
        check_fields(self, "by", "conditions", "families", "default_condition")
        for name in ("tau", "tau_final", "tau_steps", "logits_learning_rate_scale"):
            if getattr(self, name) == 0:
                raise OptionError(name, f"{name} 0 would divide by zero; give a number above 0")
        self._check_noise()
        if not self.selected_by or not all(condition in tuple(CONDITIONS) for condition in self.selected_by):
            raise OptionError(
                "by", f"head selection by {self.by!r} is not possible; give one or a list of {' '.join(CONDITIONS)}"
            )
        self._check_default()
        if self.strategy != "none":
            self._check_names()

    @property
    def selected_by(self) -> tuple[str, ...]:
        """The conditions of `by` as a tuple."""
        return (self.by,) if isinstance(self.by, str) else tuple(self.by)

    def _check_noise(self) -> None:
        if self.noise_steps == 0:
            message = "noise_steps 0 is no length; give a number of updates, or a share of the run below 1"
            raise OptionError("noise_steps", message)
        if self.noise_steps is None and self.noise_schedule != "constant":
            message = f"noise_schedule {self.noise_schedule} has no length; give noise_steps, such as 0.8 of the run"
            raise OptionError("noise_schedule", message)

    def _check_default(self) -> None:
        given = self.default_condition
        wrong = [name for name in given if name not in CONDITIONS] if isinstance(given, Mapping) else [given]
        if wrong:
            raise OptionError(
                "default_condition",
                f"default_condition {wrong[0]!r} is not a condition with its value; write {{lang: en}}, for example; "
                f"conditions: {' '.join(CONDITIONS)}",
            )

    def _check_names(self) -> None:
        for condition in self.selected_by:
            names = list(self.conditions.get(condition) or ())
            if not names:
                raise OptionError(
                    "conditions",
                    f"head selection by {condition} has no names; training fills conditions in from the data, "
                    "or list them",
                )
            default = self.default_condition.get(condition, names[0])
            if default not in names:
                message = f"default_condition {default!r} is unknown; known: {' '.join(names)}"
                raise OptionError("default_condition", message)
        if self.strategy == "static":
            if len(self.selected_by) > 1:
                raise OptionError(
                    "by", f"strategy static goes by one condition, not by {' and '.join(self.selected_by)}; choose one"
                )
            self.families_of(names)

    def families_of(self, names: Sequence[str]) -> list[list[str]]:
        """Return the families of a static selection of values `names`.

        Raises:
            OptionError: A name is in no family or in two.
        """
        families = [[name] for name in names] if self.families is None else [list(family) for family in self.families]
        listed = [name for family in families for name in family]
        for name in [*names, *listed]:
            if listed.count(name) != 1:
                message = f"{name!r} is in {listed.count(name)} families; put every name into one"
                raise OptionError("families", message)
        return families


def selection_options(given: Mapping[str, Any]) -> SelectionOptions:
    """`SelectionOptions` from a section of a configuration.

    Raises:
        ValueError: An option is unknown or has a value that is not allowed.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"selection {given!r} is no mapping of options; write selection: {{strategy: {given}}}")
    return read(SelectionOptions, given, "head selection")
