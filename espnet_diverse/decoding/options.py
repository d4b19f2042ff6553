"""Options of the beam search: the keys of conf/decode."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from espnet_diverse.errors import ConfigError, ModelError

SEARCHES = ("batched", "greedy", "sampling", "espnet")
TEXT_TASKS = ("asr", "st", "mt")
_OURS = ("search", "batch_size", "length_penalty", "temperature", "top_k", "seed")
PRECISIONS = ("float32", "int8", "bfloat16")


@dataclass(frozen=True)
class Options:
    """Options of the search.

    Attributes:
        beam_size: Hypotheses that are kept at each step.
        ctc_weight: Share of the CTC score, 0 to 1; the rest is the attention decoder's. None is 0.3 for a model that
            was trained with CTC over the text that it writes, and 0 for one that was not.
        penalty: Added to a hypothesis's score for each token.
        length_penalty: Of the hypotheses that ended, those are the best whose score divided by their number of tokens,
            <sos/eos> included, to this power is the greatest (Wu et al. 2016, "Google's neural machine translation
            system", in the form of fairseq); 0 is no division, and ESPnet's search knows nothing else.
        minlenratio, maxlenratio: Bounds of the number of tokens as a share of encoder frames, or the number itself
            where negative; maxlenratio 0 stops when hypotheses no longer improve.
        nbest: Hypotheses that are wanted of each utterance.
        search: "batched", our beam search; "greedy", by CTC alone, which the other options do not concern; "sampling",
            `nbest` draws from the attention decoder, see `decoding/sampling.py`; "espnet", ESPnet's beam search, one
            utterance at a time.
        batch_size: Utterances that are decoded together, except by ESPnet's search.
        temperature: Of sampling: log probabilities are divided by it.
        top_k: Of sampling: tokens that one is drawn from, the most probable ones; 0 is all.
        seed: Of sampling.
    """

    beam_size: int = 10
    ctc_weight: float | None = None
    penalty: float = 0.0
    minlenratio: float = 0.0
    maxlenratio: float = 0.0
    nbest: int = 1
    search: str = "batched"
    batch_size: int = 8
    length_penalty: float = 0.0
    temperature: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self):
        for name in ("beam_size", "nbest", "batch_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} {value!r} is not allowed; give a whole number of at least 1")
        if self.ctc_weight is not None and not 0 <= self.ctc_weight <= 1:
            raise ConfigError(f"ctc_weight {self.ctc_weight} is not allowed; it lies between 0 and 1")
        if self.search not in SEARCHES:
            raise ConfigError(f"search {self.search!r} is unknown; known: {' '.join(SEARCHES)}")
        for name in ("top_k", "seed"):
            if not isinstance(value := getattr(self, name), int) or value < 0:
                raise ConfigError(f"{name} {value!r} is not allowed; give a whole number of at least 0")
        if not self.temperature > 0:
            raise ConfigError(f"temperature {self.temperature} is not allowed; it is greater than 0")
        if not self.length_penalty >= 0:
            raise ConfigError(f"length_penalty {self.length_penalty} is not allowed; it is at least 0")
        if self.length_penalty and self.search != "batched":
            raise ConfigError(f"length_penalty {self.length_penalty} is for search=batched, not {self.search}; set 0")
        if self.search == "sampling" and self.ctc_weight:
            raise ConfigError(f"ctc_weight {self.ctc_weight} is not possible with search=sampling; set ctc_weight=0")

    def least(self, frames: int, ratio: float | None = None) -> int:
        """Tokens that a hypothesis has at least, for an utterance of so many encoder frames; `ratio` in place of
        `minlenratio`."""
        return _bound(self.minlenratio if ratio is None else ratio, frames)

    def greatest(self, frames: int, of_text: bool) -> int:
        """Tokens that it has at most. ESPnet takes `maxlenratio` 0 as at most as many tokens as the encoder has
        positions, which cuts translations of text off; then it is twice as many as the text has tokens, and 10."""
        if self.maxlenratio:
            return max(1, _bound(self.maxlenratio, frames))
        return 2 * (frames - 1) + 10 if of_text else frames  # the encoder reads <sos/eos> as well

    def of_espnet(self) -> dict:
        """The options that ESPnet's search has as well."""
        return {name: value for name, value in asdict(self).items() if name not in _OURS}


def _bound(ratio: float, length: int) -> int:
    """ESPnet's bound of the number of tokens: a share of the frames, or the number itself where it is negative."""
    return -int(ratio) if ratio < 0 else int(ratio * length)


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
