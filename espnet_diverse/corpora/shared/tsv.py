"""Tab-separated tables with a header, as published by Common Voice and CoVoST.

Quotation marks are literal, and a backslash escapes the character after it: pandas' QUOTE_NONE with an escape
character, with which the tables of CoVoST were written.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.data.checks.faults import Fault, refuse
from espnet_diverse.data.lines import numbered_lines

_ESCAPED = re.compile(r"\\(.)")


class Row(NamedTuple):
    """Line number of a row, from 1, and its values in the requested columns."""

    line: int
    values: tuple[str, ...]


def read_tsv(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read columns of a table.

    Args:
        path: The table.
        columns: Names of the columns.

    Raises:
        DataError: A column is missing, a row has more or fewer fields than the header, or the file is not UTF-8.
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
