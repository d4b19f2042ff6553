"""A journal of finished work, from which the next process continues if a process ends early.

    <key>
    <id> <value>
    ...
     <CRC-32> <note>

The first line identifies the work. Rows are added in groups. The line after a group begins with a space and has the
CRC-32 of its rows and of the note, so that a group counts completely or not at all. Anything after the last complete
group, left by a kill, a full disk or a power failure, is removed when the journal is opened again.
"""

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from espnet_diverse.data.files.disk_space import named_if_full
from espnet_diverse.data.packed_table import Spool


class Journal:
    """A journal that one process at a time writes to; `close` it at the end.

    Args:
        path: Its file.
        key: Identifies the work, one line. A journal with another key is emptied.

    Attributes:
        note: The note of the last group, or "".
    """

    def __init__(self, path: Path, key: str):
        self.note = ""
        self._path, self._rows = path, Spool(path)
        self._file = path.open("ab", buffering=0)  # closing must not try again to write what failed
        with path.open("rb") as file:
            self._end = self._read(file, key)
        self._file.truncate(self._end)
        if not self._end:
            self._append(f"{key}\n".encode())

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Iterable[tuple[str, str]], note: str) -> None:
        """Add a group of rows; ids must be new, and values must have no line ends."""
        lines = [f"{key} {value}\n".encode() for key, value in rows]
        start = self._end
        self._append(b"".join(lines) + _last_line(lines, note.encode()))
        self._place(lines, start, note)

    def table(self) -> Mapping[str, str]:
        """The rows added so far, sorted by id; they can be read even if the file is deleted.

        While more rows are added, only `items`, `keys` and `values` of the table can be read.
        """
        return self._rows.table()[0]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, file: BinaryIO, key: str) -> int:
        """Read the complete groups, and return the number of bytes up to their end."""
        head = file.readline()
        if head != f"{key}\n".encode():
            return 0
        end = len(head)
        lines: list[bytes] = []
        for line in file:
            if not line.startswith(b" "):
                lines.append(line)
                continue
            note = line.rstrip(b"\n").split(b" ", 2)[-1]
            if line != _last_line(lines, note):
                break
            self._place(lines, end, note.decode())
            end += sum(map(len, lines)) + len(line)
            lines = []
        return end

    def _append(self, content: bytes) -> None:
        remaining = memoryview(content)
        with named_if_full(self._path):
            while remaining:
                remaining = remaining[self._file.write(remaining) :]
        self._end += len(content)

    def _place(self, lines: Iterable[bytes], start: int, note: str) -> None:
        for line in lines:
            row = line[:-1].decode()
            self._rows.add(row.partition(" ")[0], row, start, len(line) - 1)
            start += len(line)
        self.note = note


def _last_line(lines: Iterable[bytes], note: bytes) -> bytes:
    """The line after a group."""
    return b" %08x %s\n" % (zlib.crc32(b"".join([*lines, note])), note)
