"""Options of the beam search: the keys of conf/decode."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from espnet_diverse.errors import ConfigError, ModelError

SEARCHES = ("batched", "greedy", "espnet")
TEXT_TASKS = ("asr", "st", "mt")


@dataclass(frozen=True)
class Options:
    """Options of the search.

    Attributes:
        beam_size: Hypotheses that are kept at each step.
        ctc_weight: Share of the CTC score, 0 to 1; the rest is the attention decoder's. None is 0.3 for a model that
            was trained with CTC over the text that it writes, and 0 for one that was not.
        penalty: Added to a hypothesis's score for each token.
        minlenratio, maxlenratio: Bounds of the number of tokens as a share of encoder frames, or the number itself
            where negative; maxlenratio 0 stops when hypotheses no longer improve.
        nbest: Hypotheses that are wanted of each utterance.
        search: "batched", our beam search; "greedy", by CTC alone, which the other options do not concern; "espnet",
            ESPnet's beam search, one utterance at a time.
        batch_size: Utterances that are decoded together, except by ESPnet's search.
    """

    beam_size: int = 10
    ctc_weight: float | None = None
    penalty: float = 0.0
    minlenratio: float = 0.0
    maxlenratio: float = 0.0
    nbest: int = 1
    search: str = "batched"
    batch_size: int = 8

    def __post_init__(self):
        for name in ("beam_size", "nbest", "batch_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} {value!r} is not allowed; give a whole number of at least 1")
        if self.ctc_weight is not None and not 0 <= self.ctc_weight <= 1:
            raise ConfigError(f"ctc_weight {self.ctc_weight} is not allowed; it lies between 0 and 1")
        if self.search not in SEARCHES:
            raise ConfigError(f"search {self.search!r} is unknown; known: {' '.join(SEARCHES)}")

    def of_espnet(self) -> dict:
        """The options that ESPnet's search has as well."""
        return {name: value for name, value in asdict(self).items() if name not in ("search", "batch_size")}


def text_task(config: Mapping, config_file: Path) -> str:
    """What a model does, from its config.yaml.

    Raises:
        ModelError: It writes no text.
    """
    task = config.get("task", "asr")
    if task not in TEXT_TASKS:
        raise ModelError(f"{config_file}: a model of task {task} writes no text; known: {' '.join(TEXT_TASKS)}")
    return task


def ctc_weight(config: Mapping, task: str, wanted: float | None) -> float:
    """The CTC weight of `Options` as a number, for a model.

    Args:
        config: Of the model, from its config.yaml.
        task: What it does.
        wanted: `Options.ctc_weight`.

    Raises:
        ConfigError: The model has no CTC over the text that it writes, and is to be decoded with it.
    """
    # ESPnet builds CTC over the text unless the loss gives it no weight; the defaults are those of its models.
    trained = config.get("model_conf") or {}
    weight = trained.get("ctc_weight")
    if weight is None:
        weight = {"asr": 0.5, "st": trained.get("st_mtlalpha", 0.0), "mt": 0.0}[task]
    if wanted and not weight:
        raise ConfigError(f"ctc_weight {wanted} is not possible: the model was trained without CTC; set ctc_weight=0")
    return (0.3 if weight else 0.0) if wanted is None else wanted
