"""Speech and text corpora: official layout in, Kaldi data directory out. This package imports no models.

Each corpus is a module in `CORPORA` with

    SETS                                                   names of the sets that `prepare` always returns
    MORE_SETS                                              names of sets that it returns if there are any; optional
    TABLES                                                 tables that each set has; optional, default wav.scp and text
    OPTIONS                                                fields of `Selection` that the corpus uses besides `COMMON`
    prepare(corpus_dir, selection) -> dict[str, DataTables]  read the official files, in dicts (DataDir) or packed
    download(target_dir, selection) -> Path                fetch them; returns the corpus directory for `prepare`, which
                                                           may exist from an earlier complete download
    NO_DOWNLOAD                                            instead of `download`: advice if it is not possible
    generate(target_dir, selection, size) -> Path          write its files, for a corpus that is generated; optional
    convert(source, target_dir, selection) -> Path         write files for `prepare` from data that is not on disk;
                                                           optional
    reads(source, selection) -> list[Path]                 directories in `source` that are read, and must not be
                                                           replaced; optional, default only `source`

The module's docstring describes the corpus: source, license, layout, preparation. The package `synthetic` has a module
of the same name, whose `make(target_dir, seed, size, nj)` writes a small synthetic corpus in the official layout; a
corpus with `generate` needs none. The package `shared` holds helpers of several corpora: downloads, tables, parallel
text; `long_range` holds texts with a class.
"""

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import Options, choice, hint

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
    "wmt_languages": "espnet_diverse.corpora.wmt_languages",
    "parallel_text": "espnet_diverse.corpora.parallel_text",
    "wikitext103": "espnet_diverse.corpora.wikitext103",
    "snli": "espnet_diverse.corpora.snli",
    "yelp": "espnet_diverse.corpora.yelp",
    "age": "espnet_diverse.corpora.age",
    "listops": "espnet_diverse.corpora.long_range.listops",
    "byte_text": "espnet_diverse.corpora.long_range.byte_text",
    "table": "espnet_diverse.corpora.table",
    "hf": "espnet_diverse.corpora.hf",
    "lhotse": "espnet_diverse.corpora.lhotse",
    "kaldi": "espnet_diverse.corpora.kaldi",
}
TASKS = ("asr", "st")
COMMON = ("on_bad", "sets", "set_names")
"""Fields of `Selection` that every corpus uses."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Z]{2})?")
_SET_NAME = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class Selection(Options):
    """The part of a corpus to prepare, and how. Empty fields leave the choice to the corpus.

    Attributes:
        task: "asr": `text` is the transcript; "st": `text` is the translation.
        languages: Spoken languages, for example ("ar", "de").
        pairs: Directions of translation to train and test, for example ("es-en", "fr-en"); "es_en" becomes "es-en".
        zero_shot: Directions of translation to test only.
        transcripts: "scored": normalised as for word error rates (see `data.normalisation.for_wer`); "written":
            unchanged. In translations, only white space is normalised.
        case: Letter case of text corpora: "kept", or "lower" for source and target.
        segmentation: Word segmentation of a Chinese source: "none", or "jieba", which separates words by spaces.
        on_bad: For utterances with a fault (without audio or text, in a line with a fault, with audio that cannot be
            used): "error", or "drop", which leaves them out and lists them.
        audio_dir: Directory that paths of audio in a table are relative to; by default the table's directory.
        sets: Sets to prepare, for example ("test",) for a corpus without others; "test" stands for all test sets, such
            as test_2016_flickr. All by default.
        set_names: Names of sets in the files of this copy of the corpus, where they are not the official ones, for
            example (("train", "tr"), ("dev", "cv")).
        columns: Columns of a table where their names differ, for example (("text", "sentence"),).
        split_by: What the sets of a table without a column split must not share: "speaker", or "audio" for files alone.
        split_shares: Shares of dev and test in a table without a column split.
        split_seed: Random seed of drawing these sets.
        lengths: Least and greatest number of tokens of a generated text; by default, the limits of the corpus.
        counts: Number of generated texts of train, dev and test; by default, the numbers of the size.
        allow_pipes: Whether commands of a wav.scp are run, without a shell.

    Raises:
        ConfigError: A value is not allowed, or a direction is both trained and zero-shot.
    """

    task: str = choice(*TASKS)
    languages: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    zero_shot: tuple[str, ...] = ()
    transcripts: str = choice("scored", "written")
    case: str = choice("kept", "lower")
    segmentation: str = choice("none", "jieba")
    on_bad: str = choice("error", "drop")
    audio_dir: Path | None = None
    sets: tuple[str, ...] = ()
    set_names: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    split_by: str = choice("speaker", "audio")
    split_shares: tuple[float, float] = (0.1, 0.1)
    split_seed: int = 0
    lengths: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    allow_pipes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise ConfigError(f"language {language!r}: must be a code such as de, que or zh-CN")
        for name in ("pairs", "zero_shot"):
            object.__setattr__(self, name, tuple("-".join(split_pair(pair)) for pair in getattr(self, name)))
        both = [pair for pair in self.pairs if pair in self.zero_shot]
        if both:
            raise ConfigError(f"direction {both[0]} is in pairs and in zero_shot; a zero-shot direction is not trained")
        if len(dict(self.set_names)) < len(self.set_names):
            given = " ".join("=".join(pair) for pair in self.set_names)
            raise ConfigError(f"set names {given}: a set has one name; dev and valid are the same set")
        for name, theirs in self.set_names:
            if not _SET_NAME.fullmatch(theirs):
                raise ConfigError(f"set name {name}={theirs}: must be letters, digits and . _ - alone")
        if not (min(self.split_shares) > 0 and sum(self.split_shares) < 1):
            given = " ".join(f"{share:g}" for share in self.split_shares)
            raise ConfigError(f"split_shares {given}: must be above 0 and together below 1, such as 0.1 0.1")

    def wanted(self, sets: Iterable[str]) -> tuple[str, ...]:
        """The sets among `sets` to prepare, in their order.

        Raises:
            ConfigError: There are none.
        """
        known = tuple(sets)
        chosen = tuple(name for name in known if not self.sets or {name, name.partition("_")[0]} & {*self.sets})
        if not chosen:
            raise ConfigError(f"sets {' '.join(self.sets)}: there are only {' '.join(known)}; name one of them")
        return chosen

    def name_of(self, name: str, official: str | None = None) -> str:
        """The name of a set in the files of the corpus: the name given by the user, else `official`, else its own."""
        return dict(self.set_names).get(name, official or name)


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
        known = hint(name, list(CORPORA), "prepare")
        if name.rpartition(".")[2].lower() in ("csv", "tsv", "jsonl", "json"):
            known = "a csv, tsv or jsonl file is prepared by: espnet-diverse prepare table FILE"
        raise ConfigError(f"unknown corpus {name!r}; {known}")
    return importlib.import_module(CORPORA[name])


def download_corpus(corpus: ModuleType, target_dir: Path, selection: Selection = EVERYTHING) -> Path:
    """Fetch the official release of a corpus to a folder in `target_dir`, and return the directory for `prepare`.

    Raises:
        DataError: The corpus has no download, or it fails.
    """
    if hasattr(corpus, "NO_DOWNLOAD"):
        raise DataError(corpus.NO_DOWNLOAD)
    return corpus.download(target_dir, selection)


def check_options(corpus: ModuleType, selection: Selection) -> None:
    """Reject options that the corpus does not use.

    Args:
        corpus: Module of a corpus.
        selection: The options given.

    Raises:
        ConfigError: An option differs from its default and is not among the corpus's `OPTIONS`, or the corpus lacks a
            set that is named.
    """
    name = corpus.__name__.rpartition(".")[2]
    known = dict.fromkeys([*corpus.SETS, *(each.partition("_")[0] for each in corpus.SETS)])
    known |= dict.fromkeys(getattr(corpus, "MORE_SETS", ()))
    for given in (*selection.sets, *dict(selection.set_names)):
        if given not in known:
            raise ConfigError(f"corpus {name} has no set {given!r}; it has {' '.join(known)}")
    for field in fields(Selection):
        changed = getattr(selection, field.name) != field.default
        if changed and field.name not in (*COMMON, *corpus.OPTIONS):
            has = " ".join(f"--{option}" for option in (*corpus.OPTIONS, *COMMON))
            raise ConfigError(f"corpus {name} has no option --{field.name}; it has {has}")
