"""Tables with a header and columns parted by tabs, as Common Voice and CoVoST publish them.

Quotation marks are literal, and a backslash only marks the character after it (pandas' QUOTE_NONE with an escape
character, by which the tables of CoVoST were written).
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.tables import numbered_lines

_ESCAPED = re.compile(r"\\(.)")


class Row(NamedTuple):
    """Where a row stands (line number, from 1) and its value in each of the columns asked for."""

    line: int
    values: tuple[str, ...]


def read_tsv(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read the named columns.

    Raises:
        DataError: a column is missing, a row has more or fewer fields than the header, or bytes are not utf-8.
    """
    faults: list[Fault] = []
    lines = [(number, _fields(line)) for number, line in numbered_lines(path, faults, Counter()) if line.strip()]
    refuse(faults)
    if not lines:
        refuse([Fault(str(path), None, "is empty")])
    (head, header), *rest = lines
    for column in columns:
        if column not in header:
            faults.append(Fault(str(path), head, f"has no column {column!r}; it has {', '.join(header)}"))
    for number, fields in rest:
        if len(fields) != len(header):
            faults.append(Fault(str(path), number, f"has {len(fields)} columns, and the header has {len(header)}"))
    refuse(faults)
    places = [header.index(column) for column in columns]
    return [Row(number, tuple(fields[place] for place in places)) for number, fields in rest]


def _fields(line: str) -> list[str]:
    return [_ESCAPED.sub(r"\1", field) for field in line.rstrip("\r").split("\t")]
