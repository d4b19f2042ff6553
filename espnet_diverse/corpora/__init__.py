"""Speech and text corpora: official layout in, Kaldi data directory out. Knows no nets.

A corpus is a module with

    SETS                                                   names of the sets that `prepare` returns for every selection
    TABLES                                                 tables that each of them has; optional, wav.scp and text
    OPTIONS                                                fields of `Selection` that it heeds, besides on_missing
    prepare(corpus_dir, selection) -> dict[str, DataDir]   read the official tree
    download(target_dir, selection) -> Path                fetch it; returns the corpus directory for `prepare`

Its docstring is the corpus card. `synthetic` has a module of the same name with `make(target_dir, seed, size, nj)`,
which writes a small replica in the official layout.
"""

import importlib
import re
from dataclasses import dataclass, fields
from types import ModuleType

from espnet_diverse.errors import ConfigError

CORPORA = {
    "aishell": "espnet_diverse.corpora.aishell",
    "mtedx": "espnet_diverse.corpora.mtedx",
    "covost2": "espnet_diverse.corpora.covost2",
    "europarl_st": "espnet_diverse.corpora.europarl_st",
    "iwslt14": "espnet_diverse.corpora.iwslt14",
    "wmt14": "espnet_diverse.corpora.wmt14",
    "wmt17": "espnet_diverse.corpora.wmt17",
    "multi30k": "espnet_diverse.corpora.multi30k",
    "tatoeba": "espnet_diverse.corpora.tatoeba",
    "parallel_text": "espnet_diverse.corpora.parallel_text",
    "wikitext103": "espnet_diverse.corpora.wikitext103",
}
TASKS = ("asr", "st")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Z]{2})?")


@dataclass(frozen=True)
class Selection:
    """What of a corpus to prepare. Where nothing is named, the corpus decides.

    Attributes:
        task: "asr", where `text` is the transcript, or "st", where it is the translation.
        languages: Languages spoken, for example ("ar", "de").
        pairs: Directions to train and test, for example ("es-en", "fr-en").
        zero_shot: Directions to test only.
        transcripts: "scored": as word error rates are counted (see `normalisation.for_wer`); "written": as they are.
            Translations are never changed but for spaces.
        case: Of the letters of parallel text: "kept", or "lower" on both sides.
        segmentation: Of Chinese that is translated from: "none", or "jieba", which parts words by spaces.
        on_missing: What to do with an utterance that lacks audio or text: "error", or "drop" and list it.

    Raises:
        ConfigError: where a value is out of range, or a direction is both trained and zero-shot.
    """

    task: str = "asr"
    languages: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    zero_shot: tuple[str, ...] = ()
    transcripts: str = "scored"
    case: str = "kept"
    segmentation: str = "none"
    on_missing: str = "error"

    def __post_init__(self) -> None:
        allowed = {
            "task": TASKS,
            "transcripts": ("scored", "written"),
            "case": ("kept", "lower"),
            "segmentation": ("none", "jieba"),
            "on_missing": ("error", "drop"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ConfigError(f"{name} {getattr(self, name)!r}: must be {' or '.join(values)}")
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise ConfigError(f"language {language!r}: must be a code such as de, que or zh-CN")
        for pair in self.pairs + self.zero_shot:
            split_pair(pair)
        both = [pair for pair in self.pairs if pair in self.zero_shot]
        if both:
            raise ConfigError(f"direction {both[0]} is in pairs and in zero_shot; a zero-shot direction is not trained")


EVERYTHING = Selection()


def split_pair(pair: str) -> tuple[str, str]:
    """Source and target language of "es-en"; "zh-CN" and the like may stand on either side.

    Raises:
        ConfigError: where it is no pair.
    """
    found = re.fullmatch(f"(?P<source>{_LANGUAGE.pattern})[-_](?P<target>{_LANGUAGE.pattern})", pair)
    if not found:
        raise ConfigError(f"direction {pair!r}: must be two language codes joined by -, such as es-en")
    return found["source"], found["target"]


def load_corpus(name: str) -> ModuleType:
    """Import the module of the corpus `name`.

    Raises:
        ConfigError: listing the corpora that are known.
    """
    if name not in CORPORA:
        raise ConfigError(f"unknown corpus {name!r}; known: {', '.join(CORPORA)}")
    return importlib.import_module(CORPORA[name])


def check_options(corpus: ModuleType, selection: Selection) -> None:
    """Refuse what the corpus would not heed.

    Raises:
        ConfigError: naming the option and those that the corpus has.
    """
    for field in fields(Selection):
        changed = getattr(selection, field.name) != field.default
        if changed and field.name != "on_missing" and field.name not in corpus.OPTIONS:
            has = " ".join(f"--{name}" for name in (*corpus.OPTIONS, "on_missing"))
            name = corpus.__name__.rpartition(".")[2]
            raise ConfigError(f"corpus {name} has no option --{field.name}; it has {has}")
