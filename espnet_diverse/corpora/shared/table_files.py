"""Tables that users write, with a header of column names: csv, tsv or jsonl (or json, as NeMo names it), also as .gz.

In csv, fields may be quoted, and commas or semicolons separate them, as in the header. In tsv, tabs separate them, and
quotation marks are text, as they are where `|` separates columns. If the header has none of the separators of its
suffix, but of another, the other is taken. In jsonl, each line is an object; one array of objects is read, too. Byte
order marks and CRLF are repaired.
"""

import csv
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.lines import numbered_lines

log = logging.getLogger(__name__)


class Row(NamedTuple):
    """A row: its line in the file, from 1, or another name for it, and its values by column."""

    where: int | str
    values: dict[str, object]


@dataclass
class Table:
    """The rows of a table.

    Attributes:
        path: The file; paths of audio are relative to its folder.
        columns: Names of its columns, in their order; numbers from 1 where `|` separates them, see `headerless`.
        rows: Its rows.
        faults: Faults of rows that cannot be read, which are not in `rows`.
        separator: The character between its columns; "" in json.
    """

    path: Path
    columns: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    separator: str = ""


def read_table_file(path: Path) -> Table:
    """Read a table.

    Raises:
        DataError: The file cannot be read, is empty, or has another suffix or a faulty header. Faults of rows are
            returned, so that they are reported together with the faults of values.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in _READERS:
        hint = f"; the folder has {' '.join(_tables_in(path)) or 'none'}" if path.is_dir() else ""
        refuse([Fault(str(path), None, f"is not a table: the name must end in {', '.join(_READERS)} or .gz{hint}")])
    table = Table(path)
    lines = list(numbered_lines(path, table.faults))
    if any(fault.where is None for fault in table.faults):
        refuse(table.faults)
    _READERS[suffix](table, lines)
    faulty = {fault.where for fault in table.faults}
    table.rows = [row for row in table.rows if row.where not in faulty]  # those whose bytes are no text
    if not table.columns and not table.faults:
        refuse([Fault(str(path), None, "is empty; the first line of a table has the names of its columns")])
    return table


def _tables_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if Path(path.name.removesuffix(".gz")).suffix in _READERS)


def _read_separated(usual: str, separators: str, table: Table, lines: list[tuple[int, str]]) -> None:
    """Read a table with the first of these separators that its header has between columns, or the usual one."""
    header = next((line for _, line in lines if line.strip()), "")
    table.separator = next((separator for separator in separators if separator in header), usual)
    if table.separator in ",;":
        records = _csv_records(table, (f"{line}\n" for _, line in lines), table.separator)
    else:
        records = ((number, line.split(table.separator)) for number, line in lines)
    if table.separator == "|":
        table.columns = [str(number) for number in range(1, len(header.split("|")) + 1)]
    _add_records(table, records)
    quoted = [row.where for row in table.rows if any(map(_is_quoted, row.values.values()))]
    if table.separator not in ",;" and quoted:
        reason = f"a text in quotation marks, as pandas writes it, in {len(quoted)} rows; the marks are read as text"
        log.warning("notice: %s:%s: %s: write it as csv, or with quoting=csv.QUOTE_NONE", table.path, quoted[0], reason)


def _is_quoted(value: object) -> bool:
    """Return whether a value is a quoted field of csv with quotation marks in it, or an empty one."""
    return isinstance(value, str) and _QUOTED.fullmatch(value) is not None


def _csv_records(table: Table, lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row with its first line; a quoted field may have several lines."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = f"is no csv ({error}); write a quotation mark in a quoted field twice, and close what is opened"
            table.faults.append(Fault(str(table.path), line, reason))
            read = f"was read as a part of line {line}, which is no csv"
            table.faults += [Fault(str(table.path), other, read) for other in range(line + 1, reader.line_num + 1)]
            if not table.columns:  # it is the header
                refuse(table.faults)
            continue
        yield line, fields


def _add_records(table: Table, records: Iterable[tuple[int, list[str]]]) -> None:
    """Add records to a table, the first of which is its header."""
    for number, fields in records:
        if not any(map(str.strip, fields)):  # a spreadsheet keeps rows whose cells were emptied
            continue
        if not table.columns:
            table.columns = [name.strip() for name in fields]
            refuse([Fault(str(table.path), number, reason) for reason in named_twice(table.columns)])
        elif len(fields) != len(table.columns):
            named = f"the header has {len(table.columns)}, {' '.join(table.columns)}"
            todo = _TODO.get(table.separator, "quote a field with a separator")
            reason = f"has {len(fields)} fields, and {named}; {todo}"
            table.faults.append(Fault(str(table.path), number, reason))
        else:
            table.rows.append(Row(number, dict(zip(table.columns, fields, strict=True))))


def named_twice(names: Iterable[str]) -> list[str]:
    """Faults of names of columns: those that occur twice."""
    return [
        f"has the column {name!r} twice; rename one"
        for name, count in Counter(filter(None, names)).items()
        if count > 1
    ]


def _read_jsonl(table: Table, lines: list[tuple[int, str]]) -> None:
    columns: dict[str, None] = {}
    is_array = next((line for _, line in lines if line.strip()), "").lstrip().startswith("[")
    for number, values in (_json_array if is_array else json_objects)(table.path, lines, table.faults):
        columns |= dict.fromkeys(values)
        table.rows.append(Row(number, values))
    table.columns = list(columns)


def _json_array(
    path: Path, lines: Iterable[tuple[int, str]], faults: list[Fault]
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield number and object of each item of an array of JSON; other items become faults of the file."""
    try:
        items = json.loads("\n".join(line for _, line in lines))
    except (ValueError, RecursionError) as error:
        faults.append(
            Fault(str(path), None, f"begins as an array of JSON and is none ({error}); write one object a line")
        )
        return
    for number, item in enumerate(items, 1):
        if isinstance(item, dict):
            yield f"object {number}", item
        else:
            faults.append(Fault(str(path), f"item {number}", f"is {str(item)[:40]}; write one object a line"))


def json_objects(
    path: Path, lines: Iterable[tuple[int, str]], faults: list[Fault]
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield number and object of each line of JSON; other lines, but for empty ones, become faults of the file."""
    for number, line in lines:
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            faults.append(Fault(str(path), number, f"is no JSON ({error}); a line is one object"))
            continue
        if isinstance(values, dict):
            yield number, values
        else:
            reason = f'is {line[:40]}; a line is an object, such as {{"text": "good morning"}}'
            faults.append(Fault(str(path), number, reason))


_QUOTED = re.compile(r'"(?:|[^"]*(?:""[^"]*)+)"')
_TODO = {
    "\t": "tabs separate them, and a field cannot have one",
    "|": "| separates them, and a field cannot have one",
}
_READERS = {
    ".csv": partial(_read_separated, ",", "|,;\t"),
    ".tsv": partial(_read_separated, "\t", "\t|,;"),
    ".jsonl": _read_jsonl,
    ".json": _read_jsonl,
}
