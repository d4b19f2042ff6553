"""Parallel text in plain files: line n of one file is the translation of line n of the other.

`espnet-diverse prepare parallel_text DIR` reads a folder of such files, plain or as .gz:

    <split>.<language>                the same text in several languages: train.de train.en train.fr
    <split>.<src>-<tgt>.<language>    text of one pair of languages: train.de-en.de train.de-en.en

Both are read in the selected directions, or in all that are available. Splits are train, dev (or valid, val) and test.
In text that was tokenised by Moses, as fairseq prepares it, the marks of subwords ("@@ ") and the escapes (such as
&apos;) are undone; the text stays tokenised. Ids of sentences are <src>-<tgt>-<folder>-<set>-<line of the file>.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.shared.bitext import Files, Reader
from espnet_diverse.corpora.shared.directions import refuse_untrained, translated_directions
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("languages", "pairs", "zero_shot", "case", "segmentation")
NO_DOWNLOAD = "parallel_text has no download; give a folder with train.de, train.en and so on"
STEMS = {"train": ("train",), "dev": ("dev", "valid", "val"), "test": ("test",)}
_FORMATS = {"txt", "tsv", "csv", "xml", "zip", "tgz", "tar", "log"}  # suffixes that are no language
_CODE = r"[a-z]{2,3}(?:-[A-Z]{2})?"
_NAME = re.compile(rf"(?P<stem>.+?)(?:\.(?P<pair>{_CODE}-{_CODE}))?\.(?P<language>{_CODE})(?:\.gz)?")


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read a folder of parallel files.

    Args:
        corpus_dir: The folder.
        selection: Options; by default all available directions. Lines that are empty or have invalid characters are
            errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with text, src_text, utt2lang and utt2tgtlang.

    Raises:
        ConfigError: A direction is not available; the message lists the available ones.
        DataError: A file is faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    corpus = re.sub(r"\W", "_", root.name)
    return read_layout(Layout((root,), chosen(STEMS, selection)), Reader(selection, corpus, text_of=from_tokens))


def chosen(stems: Mapping[str, tuple[str, ...]], selection: Selection) -> dict[str, tuple[str, ...]]:
    """The stems of the sets to prepare; if `selection` names a set, only that name."""
    renamed = dict(selection.set_names)
    return {name: (renamed[name],) if name in renamed else stems[name] for name in selection.wanted(stems)}


@dataclass(frozen=True)
class Layout:
    """Folders and file names of a text corpus.

    Attributes:
        folders: Folders to search, in this order.
        stems: For each set, the beginnings of its file names, in the order in which they are tried.
    """

    folders: tuple[Path, ...]
    stems: Mapping[str, tuple[str, ...]]

    def find(self, name: str, direction: str) -> Files | None:
        """The files of a set, or None; file names may have the two languages in either order."""
        source, target = split_pair(direction)
        infixes = ("", f".{source}-{target}", f".{target}-{source}")
        for folder in self.folders:
            for stem in (stem + infix for stem in self.stems[name] for infix in infixes):
                sides = [existing(folder / f"{stem}.{language}") for language in (source, target)]
                if all(sides):
                    return Files(*sides)
        return None

    def directions(self) -> list[str]:
        """Directions for which there are files."""
        stems = {stem for set_stems in self.stems.values() for stem in set_stems}
        directions: dict[str, None] = {}
        for folder in self.folders:
            names = [_NAME.fullmatch(path.name) for path in sorted(folder.glob("*"))]
            names = [name for name in names if name and name["stem"] in stems and name["language"] not in _FORMATS]
            free = dict.fromkeys(name["language"] for name in names if not name["pair"])
            pairs = [*permutations(free, 2), *(split_pair(name["pair"]) for name in names if name["pair"])]
            directions |= {direction: None for a, b in pairs for direction in (f"{a}-{b}", f"{b}-{a}")}
        return list(directions)


def read_layout(layout: Layout, reader: Reader, default: Sequence[str] = ()) -> dict[str, DataDir]:
    """The sets of a layout that hold sentences.

    Args:
        layout: Folders and file names. The sets are train, dev and those whose names begin with test. A trained
            direction is added to every set that has files of it, a zero-shot direction to test sets only.
        reader: Reads the lines; its selection has the directions.
        default: See `translated_directions`.

    Raises:
        ConfigError: A direction is not available; the message lists the available ones.
        DataError: A file is missing or faulty; the message names file and line.
    """
    where, available, selection = layout.folders[0], layout.directions(), reader.selection
    if not available:
        raise DataError(f"no parallel text in {where}: there is no pair of files such as train.de and train.en")
    wanted = translated_directions(selection, available, where, default)
    sets = {name: DataDir() for name in layout.stems}
    for direction, trained in wanted.items():
        for name, data in sets.items():
            files = layout.find(name, direction) if trained or name.startswith("test") else None
            if files:
                reader.add(data, files, direction, name)
    reader.faults.refuse()
    if "train" in sets:
        refuse_untrained(sets["train"], [direction for direction, trained in wanted.items() if trained], where)
    return complete(sets, where)


def complete(sets: Mapping[str, DataDir], where: Path) -> dict[str, DataDir]:
    """The sets that hold sentences.

    Raises:
        DataError: Of the wanted sets, train, dev or all test sets are empty.
    """
    full = {name: data for name, data in sets.items() if data.text}
    for kind in SETS:
        if any(name.startswith(kind) for name in sets) and not any(name.startswith(kind) for name in full):
            todo = "get its files, or name other directions to train with --pairs"
            raise DataError(f"{where}: there are no sentences for the set {kind} in these directions; {todo}")
    return full


def existing(path: Path) -> Path | None:
    """`path` if it is a file, or `path` with .gz appended, or None."""
    return next((file for file in (path, path.with_name(f"{path.name}.gz")) if file.is_file()), None)


_ESCAPED = {"&#124;": "|", "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"', "&#91;": "[", "&#93;": "]"}
"""Marks by the entity that Moses's tokeniser writes for each; it also writes &amp; for an ampersand."""


def from_tokens(line: str) -> str:
    """Text of a tokenised line: subwords and split compounds joined, Moses's escapes undone.

    Other entities stay, also those without a semicolon: in text that was not tokenised, such as a web address,
    "&copy=2" is not an entity.
    """
    line = line.replace("@@ ", "").replace(" ##AT##-##AT## ", "-")
    for escaped, mark in _ESCAPED.items():
        line = line.replace(escaped, mark)
    return line.replace("&amp;", "&")  # last, as an escaped "&lt;" is "&amp;lt;"
