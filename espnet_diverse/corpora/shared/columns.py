"""The columns that a table of recordings may have, and their other names."""

import logging
from pathlib import Path

from espnet_diverse.audio.suffixes import SUFFIXES
from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.table_files import Table
from espnet_diverse.data.faults import Fault
from espnet_diverse.errors import ConfigError

COLUMNS: dict[str, tuple[str, ...]] = {
    "audio": ("path", "audio_path", "audio_filepath", "audio_file", "file", "file_name", "filename", "wav_filename"),
    "text": ("sentence", "transcript", "transcription"),
    "id": ("utterance_id",),
    "speaker": ("speaker_id", "client_id"),
    "language": ("lang", "locale"),
    "target_language": ("tgt_lang", "target_lang"),
    "translation": (),
    "domain": (),
    "start": ("offset",),
    "end": (),
    "duration": (),
    "split": ("set",),
}
"""Columns and their other names, as in Common Voice, NeMo and Hugging Face; the case of names does not matter."""
REQUIRED = ("audio", "text")

log = logging.getLogger(__name__)


def find_columns(table: Table, selection: Selection) -> tuple[dict[str, str], list[Fault]]:
    """Find the columns of a table; a notice names columns that are not read.

    Returns:
        The name in the table of each column of `COLUMNS` that it has; and faults, each with all names of the table: a
        column is missing or ambiguous.

    Raises:
        ConfigError: `selection.columns` has a column that is not in `COLUMNS`.
    """
    required = (*REQUIRED, "translation") if selection.task == "st" else REQUIRED
    named = dict(selection.columns)
    for ours in named:
        if ours not in COLUMNS:
            raise ConfigError(f"column {ours}={named[ours]}: there is no {ours!r}; known: {' '.join(COLUMNS)}")
    columns: dict[str, str] = {}
    faults: list[Fault] = []
    has = f"it has {', '.join(filter(None, table.columns)) or 'none'}"
    if len(table.columns) == 1:
        has += " alone: a tab separates columns in tsv, a comma or semicolon in csv"
    elif values := [name for name in table.columns if Path(name).suffix.lower() in SUFFIXES or len(name.split()) > 2]:
        has += f" ({values[0]!r} is no name: is the first line, which must have the names, missing?)"
    for ours in COLUMNS:
        matches = _matching(table, ours, named)
        if len(matches) == 1:
            columns[ours] = matches[0]
        elif matches:
            reason = f"{' and '.join(matches)} could be {ours}; choose with --columns {ours}={matches[0]}"
            faults.append(Fault(str(table.path), None, reason))
        elif ours in named:
            faults.append(Fault(str(table.path), None, f"has no column {named[ours]!r}; {has}"))
        elif ours in required:
            reason = f"has no column {ours!r}; {has}; name one with --columns {ours}=NAME"
            faults.append(Fault(str(table.path), None, reason))
    if "end" in columns or not ("start" in columns or "duration" in named):
        columns.pop("duration", None)  # without a start it is the duration of the file, as in many tables
    unread = [name for name in table.columns if name and name not in columns.values()]
    if unread and not faults:
        log.warning("notice: %s: columns that are not read: %s", table.path, ", ".join(unread))
    return columns, faults


def _matching(table: Table, ours: str, named: dict[str, str]) -> list[str]:
    """Names in the table for a column: the name that the user gives, or its own name, or else its other names."""
    if ours in named:
        return [named[ours]] if named[ours] in table.columns else []
    free = [name for name in table.columns if name not in named.values()]
    exact = [name for name in free if name.lower() == ours]
    return exact or [name for name in free if name.lower() in COLUMNS[ours]]
