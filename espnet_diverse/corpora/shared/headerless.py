"""Tables without a line of names, as in LJSpeech and VITS; `|` separates their columns.

LJ001-0001|Printed in 1840.|printed in eighteen forty.       id, text as written, normalised text
wavs/a.wav|3|good morning                                     path, speaker, text
"""

import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from espnet_diverse.audio.suffixes import SUFFIXES
from espnet_diverse.corpora.shared.columns import COLUMNS
from espnet_diverse.corpora.shared.siblings import sibling
from espnet_diverse.corpora.shared.table_files import Row, Table, named_twice
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.errors import DataError

_OF_PATHS = {2: ("audio", "text"), 3: ("audio", "speaker", "text")}
_OF_IDS = {2: ("audio", "text"), 3: ("audio", "written", "text")}
_KNOWN = {*COLUMNS, *(name for aliases in COLUMNS.values() for name in aliases)}

log = logging.getLogger(__name__)


def with_names(table: Table, folder: Path, columns: Collection[str] = ()) -> Table:
    """A table whose columns have names, from its first line, or those of LJSpeech; other tables stay as they are.

    Args:
        table: The table; with `|` between columns it has numbers for names.
        folder: The directory that its paths are relative to.
        columns: Names that the user gives to columns, which a first line of names has.

    Raises:
        DataError: The first line has no known name, and is no row of LJSpeech or VITS with an audio file; or a name
            twice.
    """
    if table.separator != "|" or not table.rows:
        return table
    numbers, rows, first = table.columns, table.rows, [str(value).strip() for value in table.rows[0].values.values()]
    if {name.lower() for name in first} & _KNOWN or set(first) & set(columns):
        names, rows = first, rows[1:]
        refuse([Fault(str(table.path), 1, reason) for reason in named_twice(names)])
    elif (audio := sibling(first[0], folder)) and len(first) in _OF_PATHS:
        is_path = Path(first[0]).suffix.lower() in SUFFIXES
        names = list((_OF_PATHS if is_path else _OF_IDS)[len(first)])
        if not is_path:
            beside, suffix = Path(audio).parent, Path(audio).suffix
            rows = [Row(where, values | {"1": str(beside / f"{values['1']}{suffix}")}) for where, values in rows]
        log.warning("notice: %s: has no line of names; it is read as %s", table.path, "|".join(names))
    else:
        reason = f"| separates its columns, and its first line, {'|'.join(first)[:80]}, has no name of a column"
        todo = f"or no file {first[0]} is there; put a line such as audio|text before it"
        raise DataError(f"{table.path}:1: {reason}, {todo}")
    named = [Row(where, {name: values[n] for name, n in zip(names, numbers, strict=True)}) for where, values in rows]
    return replace(table, columns=names, rows=named)
