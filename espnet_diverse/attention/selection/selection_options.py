"""Options of head selection: the choices of each, and their sources.

Where the head-selection paper and its released code ("official") differ, both forms are available; the first name is
the default. The released code also draws noise in evaluation, at every step of decoding; here evaluation is
deterministic.

Numbers of updates may be a share of all updates of the run, a number between 0 and 1: `noise_steps: 0.8` trains the
last fifth without noise.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.option_checks import OptionError, Options, choice, conflict, flag, must_be, needs, number

_QUOTES = "'no', 'on' and 'off' in quotes"  # which YAML reads as true and false


@dataclass(frozen=True)
class SelectionOptions(Options):
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
        all_candidates: Whether the logits get the gradients of all candidates of a group, instead of the selected one
            alone (ours), see (8) of `functional/selection.py`. Training then computes attention for the others too.
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

    strategy: str = choice("none", "static", "group", "subset")
    pool: int = number(8, least=0)
    by: str | Sequence[str] = ("lang",)
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    families: Sequence[Sequence[str]] | None = None
    default_condition: Mapping[str, str] = field(default_factory=dict)
    subset_order: str = choice("index", "score")
    group_layout: str = choice("strided", "contiguous")
    all_candidates: bool = flag(False)
    tau: float = number(5.0, above=0)
    tau_schedule: str = choice("constant", "linear", "exp")
    tau_final: float = number(0.5, above=0)
    tau_steps: float = number(20000.0, above=0)
    noise_steps: float | None = number(None, above=0)
    noise_schedule: str = choice("constant", "linear")
    logits_learning_rate_scale: float = number(1.0, above=0)
    kl_weight: float = number(0.0, least=0)
    kl_warmup_steps: float = number(0.0, least=0)
    kl_form: str = choice("bernoulli", "official")

    def __post_init__(self):
        super().__post_init__()
        if self.noise_steps is None and self.noise_schedule != "constant":
            raise needs(self, "noise_schedule", "noise_steps, such as 0.8 of the run")
        if self.all_candidates and self.strategy not in ("none", "group"):
            raise needs(self, "all_candidates", "strategy: group")
        conditions_of(self.by)
        self._check_forms()
        if self.strategy != "none":
            self._check_names()

    @property
    def selected_by(self) -> tuple[str, ...]:
        """The conditions of `by` as a tuple."""
        return tuple(conditions_of(self.by))

    def _check_forms(self) -> None:
        default = self.default_condition
        if not isinstance(default, Mapping) or not set(default) <= set(CONDITIONS) or not _texts(default.values()):
            allowed = f"a value by condition, of {' '.join(CONDITIONS)}, such as {{lang: en}}"
            raise must_be("default_condition", f"{allowed} ({_QUOTES})", default)
        if self.families:
            check_lists_of_names("families", self.families)

    def _check_names(self) -> None:
        for condition, names in checked_values(self.by, self.conditions).items():
            default = self.default_condition.get(condition, names[0])
            if default not in names:
                raise must_be("default_condition", f"one of {' '.join(names)}", default)
        if self.strategy == "static":
            if len(self.selected_by) > 1:
                raise conflict(self, "by", "strategy static, which goes by one condition")
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


def conditions_of(by: object) -> list[str]:
    """Return the conditions that the option `by` names: a condition or a list of conditions.

    Raises:
        OptionError: A condition is unknown.
    """
    conditions = [by] if isinstance(by, str) else by
    if not isinstance(conditions, list | tuple) or not conditions or any(c not in list(CONDITIONS) for c in conditions):
        raise must_be("by", f"one or a list of {' '.join(CONDITIONS)}", by)
    return list(conditions)


def checked_values(by: object, conditions: object) -> dict[str, list[str]]:
    """Return the values of each condition that `by` names, in the order of their indices.

    Args:
        by: A condition of `conditions.CONDITIONS`, or several.
        conditions: Values of each condition.

    Raises:
        OptionError: A condition is unknown, or its values are missing or no list of different names.
    """
    by_condition = conditions or {}
    if not isinstance(by_condition, Mapping):
        raise must_be("conditions", "a mapping, such as {lang: [de, en]}", by_condition)
    checked: dict[str, list[str]] = {}
    for condition in conditions_of(by):
        values = by_condition.get(condition)
        if not values:
            has = f"conditions has no names for {condition}"
            raise OptionError("conditions", f"{has}; training fills them in from utt2{condition}, or list them")
        if not isinstance(values, list | tuple) or not _texts(values) or len(set(values)) < len(values):
            message = f"conditions of {condition} must be a list of different names ({_QUOTES}), but is {values!r:.100}"
            raise OptionError("conditions", message)
        checked[condition] = list(values)
    return checked


def check_lists_of_names(option: str, value: object) -> None:
    """Check that the value of an option is a list of lists of names, and not empty.

    Raises:
        OptionError: It is something else.
    """
    lists = value if isinstance(value, list | tuple) and value else [None]
    if not all(isinstance(names, list | tuple) and _texts(names) for names in lists):
        raise must_be(option, f"lists of names ({_QUOTES}), such as [[es, en], [fr, en]]", value)


def _texts(names: Iterable) -> bool:
    return all(isinstance(name, str) for name in names)
