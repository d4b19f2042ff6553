"""Age: tweets and the age range of their author, the class, of PAN's author profiling (https://pan.webis.de).

Rangel et al., "Overview of the 4th Author Profiling Task at PAN 2016", CLEF 2016; the data of one language, on request.
Layout, as unpacked, in one folder or in folders below it:

    truth.txt       <author>:::<gender>:::<age>, one line an author; the age is a range such as 25-34 or 65-xx
    <author>.xml    <author lang="en"><documents><document>a tweet</document>...</documents></author>

Each document is a text. The files have no sets: authors are drawn by a hash, a tenth of the texts for validation and a
tenth for test, so that no author is in two sets. An et al. 2020, "Repulsive Attention", appendix B.2.1, have 68,485
texts for training and 4,000 for each of the others, and do not state whether sets share authors. Authors whose age is
XX-XX, unknown, are left out and listed. Ids are <author>-<number of the document>; the age is utt2domain.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.shared.directions import refuse_names
from espnet_diverse.corpora.shared.labelled import LabelledReader, refuse_empty
from espnet_diverse.corpora.shared.row_faults import RowFaults, sound_lines
from espnet_diverse.corpora.shared.splits import draw_sets
from espnet_diverse.data.characters import id_fault
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.lines import numbered_lines
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
TABLES = ("text",)
OPTIONS = ("case", "split_shares", "split_seed")
NO_DOWNLOAD = (
    "PAN gives its data on request; unpack the folder of one language and give it, to run.sh as --corpus_dir DIR"
)
_AGE = re.compile(r"\d\d-(\d\d|xx)")
_UNKNOWN = "xx-xx"


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the authors and draw the sets.

    Args:
        corpus_dir: The folder.
        selection: Options. Empty documents and characters that are not allowed are errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with text and utt2domain.

    Raises:
        DataError: A file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    refuse_names(selection, SETS, "the sets are drawn from all authors")
    truth = next(iter(sorted(root.rglob("truth.txt"))), None)
    if truth is None:
        raise DataError(
            f"{root}: there is no truth.txt here or below, with the age of each author; unpack PAN's data there"
        )
    wanted, faults = selection.wanted(SETS), RowFaults(selection)
    sets = {name: DataDir() for name in wanted}
    first = sets[wanted[0]]
    lines: list[Fault] = []
    ages = _ages(truth, lines)
    faults.add_lines(first, "truth", lines)
    unknown = [author for author, (_, age) in ages.items() if age == _UNKNOWN]
    known = {author: place for author, place in ages.items() if place[1] != _UNKNOWN}
    documents: dict[str, list[str]] = {}
    for author, (line, _) in known.items():
        of_file: list[Fault] = []
        documents[author] = _documents(truth, author, line, of_file)
        for fault in of_file[:1]:
            faults.add(first, author, fault)
    faults.refuse()
    count = sum(map(bool, documents.values()))
    if count < len(wanted):
        raise DataError(f"{truth}: {count} authors cannot be divided into {' '.join(wanted)}; give the data of more")
    reader = LabelledReader(selection, sorted({age for _, age in known.values()}))
    drawn = draw_sets([author for author, texts in documents.items() for _ in texts], selection)
    for author, texts in documents.items():
        for number, text in enumerate(texts, start=1):
            place = (truth.parent / f"{author}.xml", f"document {number}")
            reader.add(sets[drawn[author]], f"{author}-{number:05d}", place, known[author][1], [text])
    reader.faults.refuse()
    refuse_empty(sets, root)
    first.dropped.update(dict.fromkeys(unknown, "the age of this author is unknown"))
    return sets


def _ages(truth: Path, faults: list[Fault]) -> dict[str, tuple[int, str]]:
    """Line and age range of each author."""
    ages: dict[str, tuple[int, str]] = {}
    for number, line in sound_lines(truth, faults):
        if not line.strip():
            continue
        author, *rest = line.strip().split(":::")
        age = rest[1].lower() if len(rest) > 1 else ""
        if reason := id_fault(author):
            faults.append(Fault(str(truth), number, reason))
        elif author in ages:
            faults.append(Fault(str(truth), number, f"author {author} is in line {ages[author][0]} too; remove one"))
        elif age != _UNKNOWN and not _AGE.fullmatch(age):
            message = f"is {line[:60]!r}, and not author:::gender:::age with an age such as 25-34 or 65-xx"
            faults.append(Fault(str(truth), number, message))
        else:
            ages[author] = (number, age)
    return ages


def _documents(truth: Path, author: str, line: int, faults: list[Fault]) -> list[str]:
    """The documents of an author; definitions in the file are not expanded, and references are not read."""
    path = truth.parent / f"{author}.xml"
    if not path.is_file():
        faults.append(Fault(str(truth), line, f"author {author} has no {path.name} next to this file; get it again"))
        return []
    before = len(faults)
    content = "\n".join(text for _, text in numbered_lines(path, faults))
    if "<!DOCTYPE" in content or "<!ENTITY" in content:
        faults.append(Fault(str(path), None, "defines entities, which PAN's files do not; get it again"))
    if len(faults) > before:
        return []
    try:
        return [document.text or "" for document in ElementTree.fromstring(content).iter("document")]
    except (ElementTree.ParseError, ValueError) as error:
        faults.append(Fault(str(path), getattr(error, "position", (None,))[0], f"is no XML ({error}); get it again"))
        return []
