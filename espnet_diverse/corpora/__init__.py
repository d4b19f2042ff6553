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

The module's docstring describes the corpus: source, license, layout, preparation. The package `synthetic`, or
`synthetic.text` in it, has a module of the same name, whose `make(target_dir, seed, size, nj)` writes a small synthetic
corpus in the official layout; a corpus with `generate` needs none. The package `shared` holds helpers of several
corpora: downloads, tables, parallel text; `long_range` holds texts with a class.
"""

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import Options, assignments, choice, flag, hint, listed, number, path

CORPORA = {
    "aishell": "espnet_diverse.corpora.aishell",
    "mtedx": "espnet_diverse.corpora.mtedx",
    "covost2": "espnet_diverse.corpora.covost2",
    "europarl_st": "espnet_diverse.corpora.europarl_st",
    "fillets": "espnet_diverse.corpora.fillets",
    "iwslt14": "espnet_diverse.corpora.iwslt14",
    "wmt14": "espnet_diverse.corpora.wmt14",
    "wmt17": "espnet_diverse.corpora.wmt17",
    "multi30k": "espnet_diverse.corpora.multi30k",
    "tatoeba": "espnet_diverse.corpora.tatoeba",
    "wmt_languages": "espnet_diverse.corpora.wmt_languages",
    "parallel_text": "espnet_diverse.corpora.parallel_text",
    "catalogues": "espnet_diverse.corpora.catalogues",
    "punctuation": "espnet_diverse.corpora.punctuation",
    "wikitext103": "espnet_diverse.corpora.wikitext103",
    "snli": "espnet_diverse.corpora.snli",
    "yelp": "espnet_diverse.corpora.yelp",
    "age": "espnet_diverse.corpora.age",
    "listops": "espnet_diverse.corpora.long_range.listops",
    "byte_text": "espnet_diverse.corpora.long_range.byte_text",
    "byte_retrieval": "espnet_diverse.corpora.long_range.byte_retrieval",
    "pixels": "espnet_diverse.corpora.long_range.pixels",
    "pathfinder": "espnet_diverse.corpora.long_range.pathfinder",
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


def _set_name(name: str) -> str:
    """The validation set is dev, and may be called valid as in ESPnet."""
    return "dev" if name == "valid" else name


@dataclass(frozen=True)
class Selection(Options):
    """The part of a corpus to prepare, and how. Empty fields leave the choice to the corpus.

    The directions es_en and es-en are the same, and so are the sets dev and valid. "test" stands for all test sets,
    such as test_2016_flickr. In translations, only white space is normalised.

    Raises:
        ConfigError: A value is not allowed, or a direction is both trained and zero-shot.
    """

    task: str = choice(*TASKS, bare=True, help="asr, or st with the translation as text")
    languages: tuple[str, ...] = listed((), help="languages spoken", shown="the corpus's own")
    pairs: tuple[str, ...] = listed((), help="directions for training and test, such as es-en fr-en")
    zero_shot: tuple[str, ...] = listed((), help="directions for test only")
    transcripts: str = choice(
        *("scored", "written"), bare=True, help="scored: lower case without punctuation, as for WER; written: unchanged"
    )
    case: str = choice("kept", "lower", bare=True, help="case of parallel text: kept, or lower on both sides")
    segmentation: str = choice(
        "none", "jieba", bare=True, help="word segmentation of Chinese source text: none or jieba"
    )
    on_bad: str = choice(
        *("error", "drop"),
        bare=True,
        also="--on_missing",
        help="utterances with a fault, such as a missing text, unusable audio or a faulty line: error, or drop, which "
        "lists them in dropped.tsv",
    )
    audio_dir: Path | None = path(None, metavar="DIR", help="directory that paths of audio are relative to (table)")
    sets: tuple[str, ...] = listed((), help="sets to prepare, such as only test", shown="all")
    set_names: tuple[tuple[str, str], ...] = assignments(
        metavar="SET=NAME",
        help="names of sets in this copy of the corpus, such as train=tr valid=cv (valid is the set dev)",
    )
    columns: tuple[tuple[str, str], ...] = assignments(
        metavar="COLUMN=NAME", help="names of columns, such as text=sentence"
    )
    split_by: str = choice(
        *("speaker", "audio"),
        bare=True,
        help="what the sets must not share if no column `split` names them: speakers (and recordings), or audio, only "
        "recordings",
    )
    split_shares: tuple[float, float] = listed(
        (0.1, 0.1), of=number(0.1), nargs=2, metavar=("DEV", "TEST"), help="shares of dev and test, if sets are drawn"
    )
    split_seed: int = number(0, help="random seed of drawing sets")
    lengths: tuple[int, ...] = listed(
        (),
        of=number(0),
        nargs=2,
        metavar=("LEAST", "GREATEST"),
        help="minimum and maximum number of tokens",
        shown="the corpus's own",
    )
    counts: tuple[int, ...] = listed(
        (),
        of=number(0),
        nargs=3,
        metavar=("TRAIN", "DEV", "TEST"),
        help="number of texts of each set",
        shown="as given by --size",
    )
    allow_pipes: bool = flag(
        help="kaldi: run commands of wav.scp such as sox or flac, without a shell, and write their output as files"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise ConfigError(f"language {language!r}: must be a code such as de, que or zh-CN")
        object.__setattr__(self, "sets", tuple(map(_set_name, self.sets)))
        object.__setattr__(self, "set_names", tuple((_set_name(name), split) for name, split in self.set_names))
        for name in ("pairs", "zero_shot"):
            object.__setattr__(self, name, tuple("-".join(split_pair(pair)) for pair in getattr(self, name)))
        both = [pair for pair in self.pairs if pair in self.zero_shot]
        if both:
            raise ConfigError(f"direction {both[0]} is in pairs and in zero_shot; a zero-shot direction is not trained")
        if len(dict(self.set_names)) < len(self.set_names):
            value = " ".join("=".join(pair) for pair in self.set_names)
            raise ConfigError(f"set names {value}: a set has one name; dev and valid are the same set")
        for name, split in self.set_names:
            if not _SET_NAME.fullmatch(split):
                raise ConfigError(f"set name {name}={split}: must be letters, digits and . _ - alone")
        if not (min(self.split_shares) > 0 and sum(self.split_shares) < 1):
            value = " ".join(f"{share:g}" for share in self.split_shares)
            raise ConfigError(f"split_shares {value}: must be above 0 and together below 1, such as 0.1 0.1")

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
    match = re.fullmatch(f"(?P<source>{_LANGUAGE.pattern})[-_](?P<target>{_LANGUAGE.pattern})", pair)
    if not match:
        raise ConfigError(f"direction {pair!r}: must be two language codes joined by -, such as es-en")
    return match["source"], match["target"]


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
    known = dict.fromkeys([*corpus.SETS, *(set_name.partition("_")[0] for set_name in corpus.SETS)])
    known |= dict.fromkeys(getattr(corpus, "MORE_SETS", ()))
    for set_name in (*selection.sets, *dict(selection.set_names)):
        if set_name not in known:
            raise ConfigError(f"corpus {name} has no set {set_name!r}; it has {' '.join(known)}")
    for field in fields(Selection):
        changed = getattr(selection, field.name) != field.default
        if changed and field.name not in (*COMMON, *corpus.OPTIONS):
            has = " ".join(f"--{option}" for option in (*corpus.OPTIONS, *COMMON))
            raise ConfigError(f"corpus {name} has no option --{field.name}; it has {has}")
