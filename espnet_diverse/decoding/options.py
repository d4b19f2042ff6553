"""Search options: the keys of conf/decode, and the options of the commands that search."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from espnet_diverse import option_checks
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.option_checks import choice, conflict, needs, number

SPEECH_SEARCHES = ("batched", "greedy", "sampling")
"""Searches of `Recognizer`."""
TRANSLATION_SEARCHES = ("batched", "sampling")
"""Searches of `Translator`: models of text translation have no CTC, which greedy search needs."""
SEARCHES = (*SPEECH_SEARCHES, "espnet")
LM_SEARCHES = ("batched", "espnet")
"""Searches that use a language model."""
SAMPLING = ("temperature", "top_k", "seed")
"""Names of the options that only affect sampling."""
TEXT_TASKS = ("asr", "st", "mt")
MULTITASK = ("s2t", "s2t_ctc")
"""Tasks of multitask models, which need a prompt."""
SEARCHED_TASKS = (*TEXT_TASKS, *MULTITASK)
"""Tasks of models that `decode` and `transcribe` search with."""
SAME_LANGUAGE_TASKS = ("asr", *MULTITASK)
"""Tasks of models whose text is in the language that is spoken."""
PRECISIONS = ("float32", "int8", "bfloat16")
LEAST_SUPPORT = 0.25
"""A text may be invented if CTC supports less than this share of its tokens, see `ctc_alignment.py`."""
SHORTLIST = ("shortlist_first", "shortlist_best")
"""Names of the options that only affect a search with a shortlist."""
_OURS = ("search", "batch_size", "length_penalty", "hotword_weight", *SHORTLIST, *SAMPLING)
_GREATEST = 2**31 - 1  # of any number; products and powers of larger ones overflow
_number = partial(number, most=_GREATEST)
_WITH_LM = 0.3
_WITH_CTC = 0.3
_SHORTLIST = 100  # as in Marian
_COUNTERPARTS = {  # of keywords of openai-whisper and faster-whisper
    "task": "to translate, give target_language='en'",
    "vad_filter": "the constructor has segmentation=SegmentationOptions(vad=...)",
    "initial_prompt": "phrases that are expected are hotwords=[...]",
}


@dataclass(frozen=True)
class SearchOptions(option_checks.Options):
    """Search options.

    Attributes:
        ctc_weight: Weight of the CTC score, 0 to 1; the attention decoder has the rest. None is 0.3 for a model that
            was trained with CTC over its output text and an attention decoder, 1 with CTC alone, and 0 otherwise.
        lm_weight: Weight of the score of a language model. None is 0.3 where there is one, and 0 elsewhere.
        hotword_weight: Score added for each token of a hotword, see `decoding/search/hotwords.py`.
        length_penalty: Completed hypotheses are ranked by their score divided by their number of tokens, including
            <sos/eos>, to this power (Wu et al. 2016, "Google's neural machine translation system", in the form of
            fairseq). 0 means no division; ESPnet's search supports nothing else.
        minlenratio: Minimum number of tokens as a fraction of the encoder frames; a negative value is minus the number
            itself.
        maxlenratio: Maximum number of tokens in the same form; 0 stops when hypotheses no longer improve.
        search: "batched" is our beam search. "greedy" decodes by CTC alone: of the other options only `batch_size` has
            an effect, and `length_penalty` is refused. "sampling" draws `nbest` texts from the attention decoder, see
            `decoding/search/sampling.py`. "espnet" is ESPnet's beam search, one utterance at a time.
        batch_size: Maximum number of utterances decoded together; ESPnet's search ignores it.
        shortlist_first: Number of tokens that every translation may have, the most probable ones of NULL, see
            `decoding/search/shortlist.py`.
        temperature: For sampling, the number by which log probabilities are divided.

    Raises:
        OptionError: A value has the wrong type or is out of range, or two values exclude each other.
    """

    beam_size: int = _number(10, least=1, help="number of hypotheses kept at each step")
    ctc_weight: float | None = number(
        None,
        least=0,
        most=1,
        help="weight of the CTC score, 0 to 1",
        shown="0.3; 0 or 1 for a model trained without CTC or with it alone",
    )
    lm_weight: float | None = _number(
        None, least=0, help="weight of the language model's score", shown="0.3 with a language model"
    )
    hotword_weight: float = _number(2.0, least=0, help="score added for each token of a hotword")
    penalty: float = _number(0.0, least=-_GREATEST, help="score added for each token")
    minlenratio: float = _number(
        0.0, least=-_GREATEST, help="minimum number of tokens as a fraction of the encoder frames; -N means N tokens"
    )
    maxlenratio: float = _number(
        0.0,
        least=-_GREATEST,
        help="maximum number of tokens as a fraction of the encoder frames; -N means N tokens",
        shown="0, stop when hypotheses no longer improve",
    )
    nbest: int = _number(1, least=1, help="number of hypotheses returned for each utterance")
    search: str = choice(*SEARCHES, help="search algorithm")
    batch_size: int = _number(8, least=1, help="maximum number of utterances decoded together")
    length_penalty: float = _number(
        0.0, least=0, most=10, help="power of the number of tokens by which scores are divided"
    )
    shortlist_first: int | None = _number(
        None,
        kind=int,
        least=0,
        help="number of frequent tokens that every translation may have",
        shown="100 with a shortlist",
    )
    shortlist_best: int | None = _number(
        None, kind=int, least=1, help="number of translations of each source token", shown="100 with a shortlist"
    )
    temperature: float = _number(1.0, least=1e-6, help="temperature of --search sampling")
    top_k: int = _number(
        0, least=0, help="number of most probable tokens that --search sampling draws from", shown="0, all"
    )
    seed: int = _number(0, least=0, help="random seed of --search sampling")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length_penalty and self.search != "batched":
            raise conflict(self, "length_penalty", f"search={self.search}; set search=batched or length_penalty=0")
        if self.search == "sampling" and self.ctc_weight:
            raise conflict(self, "ctc_weight", "search=sampling; set ctc_weight=0")
        alike = self.minlenratio * self.maxlenratio > 0  # two fractions, or two numbers of tokens
        if alike and self.least(1000) > self.greatest(1000, of_text=False):
            raise conflict(self, "minlenratio", f"maxlenratio={self.maxlenratio}, which allows fewer tokens")

    def least(self, frames: int) -> int:
        """Minimum number of tokens for an utterance of `frames` encoder frames."""
        return _bound(self.minlenratio, frames)

    def greatest(self, frames: int, of_text: bool) -> int:
        """Maximum number of tokens for an utterance.

        With `maxlenratio` 0 ESPnet allows as many tokens as the encoder has positions, which truncates translations of
        text. For text the maximum is therefore twice the number of source tokens, plus 10.

        Args:
            frames: Number of encoder frames of the utterance.
            of_text: Whether the source is text.
        """
        if self.maxlenratio:
            return max(1, _bound(self.maxlenratio, frames))
        return 2 * (frames - 1) + 10 if of_text else frames  # the encoder reads <sos/eos> as well

    def for_espnet(self, vocabulary: int) -> dict[str, Any]:
        """The options that ESPnet's search also has; a beam of more than `vocabulary` would fail."""
        options = replace(self, beam_size=min(self.beam_size, vocabulary))
        return {name: value for name, value in asdict(options).items() if name not in _OURS}

    def resolved(
        self, has_ctc: bool, has_lm: bool = False, usual_weight: float = _WITH_CTC, has_shortlist: bool = False
    ) -> "SearchOptions":
        """These options with numbers for `ctc_weight` and `lm_weight` and, with a shortlist, for its options.

        Args:
            has_ctc: Whether the model was trained with CTC over its output text.
            has_lm: Whether there is a language model.
            usual_weight: Value of `ctc_weight` where none is given and the model has CTC, see `usual_ctc_weight`.
            has_shortlist: Whether there is a shortlist.

        Raises:
            ConfigError: The options need CTC and the model was trained without it, or need a decoder and it has CTC
                alone; or a weight is given without a language model, or a language model to a search without one; or
                the same of a shortlist.
        """
        if self.lm_weight and not has_lm:
            raise needs(self, "lm_weight", "a language model; give --lm, or leave it out")
        if has_lm and self.search not in LM_SEARCHES:
            raise ConfigError(f"search={self.search} uses no language model; set search=batched, or leave --lm out")
        lm_weight = (_WITH_LM if has_lm else 0.0) if self.lm_weight is None else self.lm_weight
        weight = self.ctc_weight
        if weight is None:
            weight = 0.0 if not has_ctc or self.search == "sampling" else usual_weight
        if not has_ctc and weight:
            reason = f"ctc_weight {weight} is not possible"
            raise ConfigError(f"{reason}: the model was trained without CTC; set ctc_weight=0")
        if usual_weight == 1 > weight and self.search in ("batched", "espnet"):
            raise ConfigError(f"ctc_weight {weight} is not possible: the model has CTC alone; set ctc_weight=1")
        if not has_ctc and self.search == "greedy":
            raise ConfigError("search=greedy is not possible: the model was trained without CTC; set search=batched")
        first, best = self._of_shortlist(has_shortlist)
        return replace(self, ctc_weight=weight, lm_weight=lm_weight, shortlist_first=first, shortlist_best=best)

    def _of_shortlist(self, has_shortlist: bool) -> tuple[int | None, int | None]:
        """`shortlist_first` and `shortlist_best` as numbers where there is a shortlist."""
        if has_shortlist and self.search != "batched":
            reason = f"search={self.search} is not possible with a shortlist"
            raise ConfigError(f"{reason}; set search=batched, or leave --shortlist out")
        if names := [name for name in SHORTLIST if getattr(self, name) is not None and not has_shortlist]:
            raise needs(self, names[0], "a shortlist; give --shortlist, or leave it out")
        usual = _SHORTLIST if has_shortlist else None
        first, best = self.shortlist_first, self.shortlist_best
        return usual if first is None else first, usual if best is None else best


SearchOptionsLike = SearchOptions | Mapping[str, Any] | None
"""Search options as arguments: all of them, some by name, or the defaults."""


def options_of(
    given: SearchOptionsLike, defaults: SearchOptions | None = None, searches: Sequence[str] = SEARCHES
) -> SearchOptions | None:
    """Search options as a user gives them; a mapping changes some of `defaults`.

    Raises:
        ConfigError: An option is unknown or has a wrong value, or the search is not one of `searches`.
    """
    options: SearchOptions | None
    if given is None or isinstance(given, SearchOptions):
        options = given
    else:
        options = option_checks.read(SearchOptions, given, "the search")
        options = options if defaults is None else replace(defaults, **given)
    if options is not None and options.search not in searches:
        other = "; use espnet-diverse decode for it" if options.search == "espnet" else ""
        raise ConfigError(f"search={options.search} is not possible here; possible: {' '.join(searches)}{other}")
    return options


def with_keywords(
    options: SearchOptionsLike, keywords: Mapping[str, Any], arguments: Collection[str]
) -> SearchOptionsLike:
    """Search options with those among them that a call has as keywords.

    Args:
        options: Search options of the call.
        keywords: Search options by name.
        arguments: Names of the call's own arguments, for the error.

    Raises:
        OptionError: A keyword is neither a search option nor an argument.
    """
    for name in keywords.keys() & _COUNTERPARTS.keys():
        raise option_checks.OptionError(name, f"unknown option {name!r} of the search; {_COUNTERPARTS[name]}")
    option_checks.check_names(keywords, [*(option.name for option in fields(SearchOptions)), *arguments], "the search")
    if isinstance(options, SearchOptions):
        return replace(options, **keywords)
    if keywords and options is not None:
        option_checks.read(SearchOptions, options, "the search")  # a mapping
    return {**(options or {}), **keywords} if keywords else options


def _bound(ratio: float, length: int) -> int:
    """ESPnet's bound of the number of tokens: a fraction of the frames, or the number itself where it is negative."""
    return -int(ratio) if ratio < 0 else int(ratio * length)


def text_task(config: Mapping[str, Any], config_file: Path, known: Sequence[str] = TEXT_TASKS) -> str:
    """Task of a model that writes text, from its config.yaml.

    Args:
        config: The model's configuration.
        config_file: Its path, for messages.
        known: Tasks that are possible.

    Raises:
        ModelError: The model has another task.
    """
    task = config.get("task", "asr")
    if task not in known:
        reason = "is not possible here" if task in SEARCHED_TASKS else "writes no text"
        raise ModelError(f"{config_file}: a model of task {task} {reason}; known: {' '.join(known)}")
    return task


def check_search(config: Mapping[str, Any], options: SearchOptions) -> None:
    """Refuse a search that is not possible with a non-autoregressive model.

    Args:
        config: The model's configuration, from its config.yaml.
        options: Search options.

    Raises:
        ConfigError: The model translates in one pass, and the search makes a text token by token.
    """
    if is_non_autoregressive(config) and options.search != "batched":
        reason = f"search={options.search} is not possible"
        raise ConfigError(f"{reason}: the model is non-autoregressive and translates in one pass; set search=batched")


def is_non_autoregressive(config: Mapping[str, Any]) -> bool:
    """Return whether a model writes all tokens in one pass, from its config.yaml."""
    return config.get("model") == "flow"


def usual_ctc_weight(config: Mapping[str, Any], task: str) -> float:
    """Weight of CTC for a model that has it: 1 where it has CTC alone, and 0 for transducers and multitask models with
    a decoder, which ESPnet decodes without CTC, and for CTC over bytes, which knows less than the decoder beside it.
    Takes the same arguments as `has_ctc`."""
    trained = config.get("model_conf") or {}
    if task == "s2t" or config.get("decoder") == "transducer" or trained.get("ctc_labels") == "bytes":
        return 0.0
    alone = task == "s2t_ctc" or task == "asr" and trained.get("ctc_weight") == 1.0
    return 1.0 if alone else _WITH_CTC


def has_ctc(config: Mapping[str, Any], task: str) -> bool:
    """Return whether a model was trained with CTC over its output text.

    Args:
        config: The model's configuration, from its config.yaml.
        task: The model's task.
    """
    # ESPnet builds CTC over the text unless the loss gives it no weight; the defaults are the same as in its models.
    trained = config.get("model_conf") or {}
    weight = trained.get("ctc_weight")
    if weight is None:
        weight = {"asr": 0.5, "st": trained.get("st_mtlalpha", 0.0), "mt": 0.0, "s2t": 0.5, "s2t_ctc": 1.0}[task]
    return bool(weight)
