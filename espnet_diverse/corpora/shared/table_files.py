"""Tables that users write, with a header of column names: csv, tsv or jsonl (or json, as NeMo names it), also as .gz.

In csv, fields may be quoted, and commas or semicolons separate them, as in the header. In tsv, tabs separate them, and
quotation marks are text. In jsonl, each line is an object. Byte order marks and CRLF are repaired.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.data.checks.faults import Fault, refuse
from espnet_diverse.data.lines import numbered_lines


class Row(NamedTuple):
    """A row: its line in the file, from 1, or another name for it, and its values by column."""

    where: int | str
    values: dict[str, object]


@dataclass
class Table:
    """The rows of a table.

    Attributes:
        path: The file; paths of audio are relative to its folder.
        columns: Names of its columns, in their order.
        rows: Its rows.
        faults: Faults of rows that cannot be read, which are not in `rows`.
    """

    path: Path
    columns: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def read_table_file(path: Path) -> Table:
    """Read a table.

    Raises:
        DataError: The file cannot be read, is empty, or has another suffix or a faulty header. Faults of rows are
            returned, so that they are reported together with the faults of values.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in _READERS:
        there = f"; the folder has {' '.join(_tables_in(path)) or 'none'}" if path.is_dir() else ""
        refuse([Fault(str(path), None, f"is not a table: the name must end in {', '.join(_READERS)} or .gz{there}")])
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


def _read_csv(table: Table, lines: list[tuple[int, str]]) -> None:
    first = lines[0][1] if lines else ""
    delimiter = ";" if ";" in first and "," not in first else ","
    _add_records(table, _csv_records(table, (f"{line}\n" for _, line in lines), delimiter), quoted=True)


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
            what = f"is no csv ({error}); write a quotation mark in a quoted field twice, and close what is opened"
            table.faults.append(Fault(str(table.path), line, what))
            read = f"was read as a part of line {line}, which is no csv"
            table.faults += [Fault(str(table.path), other, read) for other in range(line + 1, reader.line_num + 1)]
            if not table.columns:  # it is the header
                refuse(table.faults)
            continue
        yield line, fields


def _read_tsv(table: Table, lines: list[tuple[int, str]]) -> None:
    _add_records(table, ((number, line.split("\t")) for number, line in lines), quoted=False)


def _add_records(table: Table, records: Iterable[tuple[int, list[str]]], quoted: bool) -> None:
    """Add records to a table, the first of which is its header; `quoted` is whether fields may be quoted."""
    for number, fields in records:
        if not any(map(str.strip, fields)):  # a spreadsheet keeps rows whose cells were emptied
            continue
        if not table.columns:
            table.columns = [name.strip() for name in fields]
            twice = [name for name, count in Counter(filter(None, table.columns)).items() if count > 1]
            refuse([Fault(str(table.path), number, f"has the column {name!r} twice; rename one") for name in twice])
        elif len(fields) != len(table.columns):
            named = f"the header has {len(table.columns)}, {' '.join(table.columns)}"
            todo = "quote a field with a separator" if quoted else "tabs separate them, and a field cannot have one"
            what = f"has {len(fields)} fields, and {named}; {todo}"
            table.faults.append(Fault(str(table.path), number, what))
        else:
            table.rows.append(Row(number, dict(zip(table.columns, fields, strict=True))))


def _read_jsonl(table: Table, lines: list[tuple[int, str]]) -> None:
    columns: dict[str, None] = {}
    for number, values in json_objects(table.path, lines, table.faults):
        columns |= dict.fromkeys(values)
        table.rows.append(Row(number, values))
    table.columns = list(columns)


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
            what = f'is {line[:40]}; a line is an object, such as {{"text": "good morning"}}'
            faults.append(Fault(str(path), number, what))


_READERS = {".csv": _read_csv, ".tsv": _read_tsv, ".jsonl": _read_jsonl, ".json": _read_jsonl}
