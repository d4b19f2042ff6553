"""Faults of a corpus that is read, and the lines of parallel files with their faults.

A fault of one line or one recording is refused together with all others, or the utterance is left out and listed if
`Selection.on_bad` is "drop". A fault of a file as a whole is refused in any case.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.corpora import Selection
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.lines import numbered_lines
from espnet_diverse.data.tables import notice_repairs, scan_lines


@dataclass
class RowFaults:
    """The faults of a corpus.

    Attributes:
        selection: Options; on_bad is used.
        refused: The faults to refuse; faults of a whole file are appended to it.
    """

    selection: Selection
    refused: list[Fault] = field(default_factory=list)

    def add(self, data: DataDir, utterance: str, fault: Fault) -> None:
        """Refuse a fault of one utterance, or leave the utterance out of a set, in which it is not."""
        if self.selection.on_bad == "drop":
            data.dropped[utterance] = fault.reason
            data.bad.add(utterance)
        else:
            self.refused.append(replace(fault, entry=utterance))

    def add_lines(self, data: DataDir, prefix: str, faults: Iterable[Fault]) -> None:
        """Add faults of lines that belong to no utterance, which are listed as <prefix>-line<n>; or of whole files."""
        for fault in faults:
            if isinstance(fault.where, int):
                self.add(data, f"{prefix}-line{fault.where}", fault)
            else:
                self.refused.append(fault)

    def refuse(self) -> None:
        """Raise one error for all faults that are refused.

        Raises:
            FaultsError: There are any.
        """
        refuse(self.refused)


def sound_lines(path: Path, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line whose bytes are a text; the others are faults of their lines."""
    for number, line in numbered_lines(path, faults):
        if not (faults and faults[-1].where == number and faults[-1].file == str(path)):
            yield number, line


class Lines(NamedTuple):
    """The lines of a file: texts, and faults by line number from 1."""

    path: Path
    texts: list[str]
    faults: dict[int, Fault]


class Sentence(NamedTuple):
    """A sentence in a file: its line, its text, and the fault of the line."""

    line: int
    text: str
    fault: Fault | None


class Row(NamedTuple):
    """A line of parallel files: its number from 1, the texts in the order of the files, and the first fault."""

    line: int
    texts: tuple[str, ...]
    fault: Fault | None


def read_lines(path: Path, whole: list[Fault], form: Callable[[str], str] = str) -> Lines | None:
    """Read one text a line; see `data.tables.scan_lines`. If the file is faulty, append to `whole` and return None."""
    texts, faults = scan_lines(path, form)
    of_file = [fault for fault in faults if not isinstance(fault.where, int)]
    if of_file:
        whole += of_file
        return None
    return Lines(path, texts, {fault.where: fault for fault in reversed(faults) if isinstance(fault.where, int)})


def parallel(files: Sequence[Lines | None], faults: list[Fault]) -> list[Row]:
    """The rows of files whose lines belong together; none if a file is missing or they differ in length.

    Blank lines at the end, by which a file is longer than the text of all, are passed over with a notice.

    Args:
        files: The files, from `read_lines`.
        faults: Receives a fault if their lengths differ.
    """
    present = [file for file in files if file is not None]
    if len(present) < len(files):
        return []
    count = max(_written(file) for file in present)
    sizes = [min(len(file.texts), count) for file in present]
    for file, size in zip(present, sizes, strict=True):
        if size < len(file.texts):
            notice_repairs(file.path, Counter({"blank line at the end": len(file.texts) - size}))
        if size != sizes[0]:
            reason = f"has {size} lines, and {present[0].path.name} has {sizes[0]}; parallel files are equally long"
            faults.append(Fault(str(file.path), None, f"{reason}: get both again"))
    if len({*sizes}) > 1:
        faults += [fault for file in present for fault in file.faults.values()]
        return []
    columns = zip(*(file.texts[:count] for file in present), strict=True)
    return [Row(line, texts, _first_fault(present, line)) for line, texts in enumerate(columns, start=1)]


def _written(file: Lines) -> int:
    """The last line that is not blank, or has a fault."""
    last = len(file.texts)
    while last and not file.texts[last - 1] and last not in file.faults:
        last -= 1
    return last


def _first_fault(files: Sequence[Lines], line: int) -> Fault | None:
    return next((file.faults[line] for file in files if line in file.faults), None)
