"""Texts with a class: the rows of files, and the sets made from them.

The class of a text is its value in utt2domain, and the first text of a pair is its src_text.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.row_faults import RowFaults, sound_lines
from espnet_diverse.corpora.shared.table_files import json_objects
from espnet_diverse.data.characters import SURROGATE, clean_text, text_fault
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import lower_case
from espnet_diverse.errors import DataError

TABLE = "utt2domain"

Rows = Iterator[tuple[int, Mapping[str, Any]]]


def json_rows(path: Path, faults: list[Fault]) -> Rows:
    """Yield line and object of each line of JSON; other lines, but for empty ones, become faults."""
    return json_objects(path, sound_lines(path, faults), faults)


def tab_rows(path: Path, faults: list[Fault]) -> Rows:
    """Yield line and values of each line after the first, which has the names of the columns; tabs separate them."""
    columns: list[str] = []
    for number, line in sound_lines(path, faults):
        values = line.split("\t")
        if not columns:
            columns = values
        elif len(values) != len(columns):
            reason = f"has {len(values)} columns, and the first line has {len(columns)}; get the file again"
            faults.append(Fault(str(path), number, reason))
        else:
            yield number, dict(zip(columns, values, strict=True))


@dataclass
class LabelledReader:
    """Makes sets of texts with their classes, and collects their faults.

    Attributes:
        selection: Options; case and on_bad are used.
        labels: The possible classes.
        faults: The faults found so far.
    """

    selection: Selection
    labels: Collection[str]
    faults: RowFaults = field(init=False)

    def __post_init__(self) -> None:
        self.faults = RowFaults(self.selection)

    def add(
        self, data: DataDir, utterance: str, place: tuple[Path, int | str], label: object, texts: Sequence[object]
    ) -> None:
        """Add a text, or a pair of them, to a set.

        Args:
            data: The set.
            utterance: Id of the text.
            place: File, and line or another place in it, for faults.
            label: Its class; a fault, unless it is one of `labels`.
            texts: The text, or the first and the second text. A text that is empty or has characters that are not
                allowed is a fault.
        """
        path, number = place
        cleaned = [self._cleaned(text) for text in texts]
        reason = next((fault for _, fault in cleaned if fault), "")
        if label not in self.labels:
            reason = f"class {label!r:.60} is none of {' '.join(self.labels)}; get the file again"
        if reason:
            self.faults.add(data, utterance, Fault(str(path), number, reason))
        else:
            *first, data.text[utterance] = (text for text, _ in cleaned)
            data.src_text.update((utterance, text) for text in first)
            data.conditions.setdefault(TABLE, {})[utterance] = str(label)

    def _cleaned(self, text: object) -> tuple[str, str]:
        """A text on one line, and its fault, or ""."""
        if not isinstance(text, str):
            return "", f"text {text!r:.60} is no string"
        if SURROGATE.search(text):
            return "", "text has half of a surrogate pair"
        cleaned = clean_text(" ".join(text.split()))[0]
        cleaned = lower_case(cleaned, "en") if self.selection.case == "lower" else cleaned
        return cleaned, text_fault(cleaned) or "" if cleaned else "has an empty text; correct it"


def first_file(root: Path, names: Sequence[str], what: str) -> Path:
    """The first file that exists in a folder.

    Args:
        root: The folder.
        names: Names to try, in this order.
        what: Description of the file and advice, for the message.

    Raises:
        DataError: There is none.
    """
    path = next((root / name for name in names if (root / name).is_file()), None)
    if path is None:
        raise DataError(f"{root}: there is no {names[0]}, {what}")
    return path


def refuse_empty(sets: Mapping[str, DataDir], where: Path) -> None:
    """Check that every set has texts.

    Raises:
        DataError: A set is empty.
    """
    for name, data in sets.items():
        if not data.text:
            raise DataError(f"{where}: there are no texts for the set {name}; get its files again")
