"""Speech and text corpora: official layout in, Kaldi data directory out. This package imports no models.

Each corpus is a module in `CORPORA` with

    SETS                                                   names of the sets that `prepare` always returns
    TABLES                                                 tables that each set has; optional, default wav.scp and text
    OPTIONS                                                fields of `Selection` that the corpus uses, and on_missing
    prepare(corpus_dir, selection) -> dict[str, DataDir]   read the official files
    download(target_dir, selection) -> Path                fetch them; returns the corpus directory for `prepare`

The module's docstring describes the corpus: source, license, layout, preparation. The package `synthetic` has a module
of the same name, whose `make(target_dir, seed, size, nj)` writes a small synthetic corpus in the official layout. The
package `shared` holds what several corpora use: downloads, tables, parallel text.
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
    """The part of a corpus to prepare, and how. Empty fields leave the choice to the corpus.

    Attributes:
        task: "asr": `text` is the transcript; "st": `text` is the translation.
        languages: Spoken languages, for example ("ar", "de").
        pairs: Directions of translation to train and test, for example ("es-en", "fr-en").
        zero_shot: Directions of translation to test only.
        transcripts: "scored": normalised as for word error rates (see `data.normalisation.for_wer`); "written":
            unchanged. In translations, only white space is normalised.
        case: Letter case of text corpora: "kept", or "lower" for source and target.
        segmentation: Word segmentation of a Chinese source: "none", or "jieba", which separates words by spaces.
        on_missing: For utterances without audio or text: "error", or "drop", which leaves them out and lists them.

    Raises:
        ConfigError: A value is not allowed, or a direction is both trained and zero-shot.
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
    """Source and target language of a direction such as "es-en" or "zh-CN_en".

    Raises:
        ConfigError: `pair` is not two language codes joined by - or _.
    """
    found = re.fullmatch(f"(?P<source>{_LANGUAGE.pattern})[-_](?P<target>{_LANGUAGE.pattern})", pair)
    if not found:
        raise ConfigError(f"direction {pair!r}: must be two language codes joined by -, such as es-en")
    return found["source"], found["target"]


def load_corpus(name: str) -> ModuleType:
    """Import the module of the corpus `name`.

    Raises:
        ConfigError: The corpus is unknown; the message lists the known ones.
    """
    if name not in CORPORA:
        raise ConfigError(f"unknown corpus {name!r}; known: {', '.join(CORPORA)}")
    return importlib.import_module(CORPORA[name])


def check_options(corpus: ModuleType, selection: Selection) -> None:
    """Reject options that the corpus does not use.

    Args:
        corpus: Module of a corpus.
        selection: The options given.

    Raises:
        ConfigError: An option differs from its default and is not among the corpus's `OPTIONS`.
    """
    for field in fields(Selection):
        changed = getattr(selection, field.name) != field.default
        if changed and field.name != "on_missing" and field.name not in corpus.OPTIONS:
            has = " ".join(f"--{name}" for name in (*corpus.OPTIONS, "on_missing"))
            name = corpus.__name__.rpartition(".")[2]
            raise ConfigError(f"corpus {name} has no option --{field.name}; it has {has}")
