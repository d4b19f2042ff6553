"""Parallel text of your own: sentences and their translations in plain files, line for line.

`espnet-diverse prepare parallel_text --corpus_dir DIR` reads a folder of such files, each also as .gz:

    <split>.<language>                one text in several languages: train.de train.en train.fr
    <split>.<src>-<tgt>.<language>    a text in two languages: train.de-en.de train.de-en.en

Either is read in all directions that are named, or in all that are there. Splits are train, dev (or valid, val) and
test. Text that Moses has tokenised, as fairseq prepares it, loses the marks of subwords ("@@ ") and the escapes (&apos;
and the like); words and marks stay parted. Ids of sentences are <src>-<tgt>-<folder>-<set>-<line of the file>.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.shared.bitext import Files, Reader
from espnet_diverse.corpora.shared.directions import refuse_untrained, translated_directions
from espnet_diverse.data.faults import refuse
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("languages", "pairs", "zero_shot", "case", "segmentation")
STEMS = {"train": ("train",), "dev": ("dev", "valid", "val"), "test": ("test",)}
_CODE = r"[a-z]{2,3}(?:-[A-Z]{2})?"
_NAME = re.compile(rf"(?P<stem>.+?)(?:\.(?P<pair>{_CODE}-{_CODE}))?\.(?P<language>{_CODE})(?:\.gz)?")


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read a folder of parallel files.

    Args:
        corpus_dir: The folder.
        selection: Where nothing is named, all directions that are there. Lines that are empty, or that hold what no
            text may hold, are faults unless `on_missing="drop"`.

    Returns:
        The sets train, dev and test, of text alone, with utt2lang and utt2tgtlang.

    Raises:
        ConfigError: a direction is not there; those that are there are listed.
        DataError: naming file and line of what is wrong.
    """
    root = corpus_dir.absolute()
    corpus = re.sub(r"\W", "_", root.name)
    return read_layout(Layout((root,), STEMS), Reader(selection, corpus, text_of=from_tokens))


def download(target_dir: Path, selection: Selection = EVERYTHING) -> Path:
    """There is nothing to fetch, so this always raises.

    Raises:
        DataError: saying what to give.
    """
    raise DataError("parallel_text is text of your own; give --corpus_dir DIR with train.de, train.en and so on")


@dataclass(frozen=True)
class Layout:
    """Where the files of a corpus lie.

    Attributes:
        folders: Folders that are looked through, in this order.
        stems: Begins of the file names of each set, in the order in which they are tried.
    """

    folders: tuple[Path, ...]
    stems: Mapping[str, tuple[str, ...]]

    def find(self, name: str, direction: str) -> Files | None:
        """The files of a set, in whatever order their names have the two languages."""
        source, target = split_pair(direction)
        infixes = ("", f".{source}-{target}", f".{target}-{source}")
        for folder in self.folders:
            for stem in (stem + infix for stem in self.stems[name] for infix in infixes):
                sides = [existing(folder / f"{stem}.{language}") for language in (source, target)]
                if all(sides):
                    return Files(*sides)
        return None

    def directions(self) -> list[str]:
        """Directions of which there are files."""
        stems = {stem for each in self.stems.values() for stem in each}
        found: dict[str, None] = {}
        for folder in self.folders:
            names = [_NAME.fullmatch(path.name) for path in sorted(folder.glob("*"))]
            names = [name for name in names if name and name["stem"] in stems]
            free = dict.fromkeys(name["language"] for name in names if not name["pair"])
            pairs = [*permutations(free, 2), *(split_pair(name["pair"]) for name in names if name["pair"])]
            found |= {direction: None for a, b in pairs for direction in (f"{a}-{b}", f"{b}-{a}")}
        return list(found)


def read_layout(layout: Layout, reader: Reader, default: Sequence[str] = ()) -> dict[str, DataDir]:
    """The sets of a layout that hold sentences.

    Args:
        layout: Where the files lie; its sets are train, dev and those whose names begin with test. A direction that is
            trained is in all of them, as far as there are files, and a zero-shot one in the latter.
        reader: How lines are read; its selection names the directions.
        default: Directions where the selection names none; without it all that are there.

    Raises:
        ConfigError: a direction is not there; those that are there are listed.
        DataError: naming file and line of what is wrong, or what is missing.
    """
    where, there, selection = layout.folders[0], layout.directions(), reader.selection
    if not there:
        raise DataError(f"no parallel text in {where}: there is no pair of files such as train.de and train.en")
    if not (selection.pairs or selection.languages):
        selection = replace(selection, pairs=tuple(pair for pair in default if pair not in selection.zero_shot))
    wanted = translated_directions(selection, there, where)
    sets = {name: DataDir() for name in layout.stems}
    for direction, trained in wanted.items():
        for name, data in sets.items():
            files = layout.find(name, direction) if trained or name.startswith("test") else None
            if files:
                reader.add(data, files, direction, name)
    refuse(reader.faults)
    refuse_untrained(sets["train"], [direction for direction, trained in wanted.items() if trained], where)
    return complete(sets, where)


def complete(sets: Mapping[str, DataDir], where: Path) -> dict[str, DataDir]:
    """The sets that hold sentences.

    Raises:
        DataError: train, dev or all sets to test on are empty.
    """
    full = {name: data for name, data in sets.items() if data.text}
    for kind in SETS:
        if not any(name.startswith(kind) for name in full):
            raise DataError(f"{where}: there are no sentences for the set {kind} in these directions; get its files")
    return full


def existing(path: Path) -> Path | None:
    """The file, or the compressed file of this name, or None."""
    return next((file for file in (path, path.with_name(f"{path.name}.gz")) if file.is_file()), None)


def find_training(root: Path, part: str, direction: str) -> Files | None:
    """The files `part`.<language> of source and target, in the folder training of `root` or in it, or None."""
    for folder in (root / "training", root):
        sides = [existing(folder / f"{part}.{language}") for language in split_pair(direction)]
        if all(sides):
            return Files(*sides)
    return None


def from_tokens(line: str) -> str:
    """Text of a tokenised line: without marks of subwords, compounds joined again, escaped marks as themselves."""
    return html.unescape(line.replace("@@ ", "").replace(" ##AT##-##AT## ", "-"))
