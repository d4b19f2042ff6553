"""A table of millions of rows that is read like a dict, without Python objects for its rows.

A row is stored as its position in the file, 12 bytes, and is read when it is requested. Rows repaired while reading,
such as with a tab, are kept in a buffer. Rows are in the order of their ids, so an id is found by bisection, and ids
requested in order are found at once. The file stays open: if it is replaced, the old content is still read; if it is
overwritten in place, an id that is no longer at its position is an error.
"""

import os
import weakref
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from espnet_diverse.data.files.disk_space import named_if_full
from espnet_diverse.data.table_views import Joined, TableView
from espnet_diverse.errors import DataError

if TYPE_CHECKING:  # commands that only show their options do not wait for numpy
    import numpy as np
    from numpy.typing import NDArray

_SEQUENCES = 8  # maximum number of sorted sequences that are merged
_BLOCK = 1024  # rows that are read at once
_SPREAD = 1 << 20  # bytes between the rows of a block, beyond which they are read one by one


class PackedTable(TableView[str]):
    """Values by id, sorted by id; made by `Rows`.

    Args:
        path: The file; it may be missing if no row is in it.
        starts: First byte of each row in the file, (N,) int64; -1 - b for byte b of `repaired`.
        sizes: Number of bytes of each row, (N,) uint32.
        repaired: Rows that are not in the file.
        plain: Whether the rows are the lines of the file, in their order.

    Raises:
        DataError: In all methods that read: the file was overwritten in the meantime.
    """

    def __init__(
        self, path: Path, starts: "NDArray[np.int64]", sizes: "NDArray[np.uint32]", repaired: bytearray, plain: bool
    ):
        self.path, self.plain = path, plain
        self._starts, self._sizes, self._repaired = starts, sizes, repaired
        self._last = -1
        self._file = os.open(path, os.O_RDONLY) if len(starts) and starts.max() >= 0 else -1
        if self._file >= 0:
            weakref.finalize(self, os.close, self._file)
            self._opened = self._state()

    def __reduce__(self):
        return type(self), (self.path, self._starts, self._sizes, self._repaired, self.plain)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, key: str) -> str:
        return self._find(key)[1]

    def __contains__(self, key: object) -> bool:
        try:
            return isinstance(key, str) and self.row_of(key) >= 0
        except KeyError:
            return False

    def pair(self, row: int) -> tuple[str, str]:
        """Id and value of a row, counted from 0."""
        key, _, value = self._row(row).partition(" ")
        return key, value

    def key(self, row: int) -> str:
        """The id of a row."""
        return self.pair(row)[0]

    def row_of(self, key: str) -> int:
        """The row with an id.

        Raises:
            KeyError: There is no such row.
        """
        return self._find(key)[0]

    def _find(self, key: str) -> tuple[int, str]:
        """The row with an id, and its value: the row after the last one found, that row itself, or by bisection."""
        for guess in (self._last + 1, self._last, None):
            row = bisect_left(range(len(self)), key, key=self.key) if guess is None else guess
            if 0 <= row < len(self):
                candidate, value = self.pair(row)
                if candidate == key:
                    self._last = row
                    return row, value
        if self._file >= 0 and self._state() != self._opened:
            self._refuse()
        raise KeyError(key)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Ids and values, read in blocks."""
        for row in self._rows():
            key, _, value = row.partition(" ")
            yield key, value

    def _row(self, row: int) -> str:
        start, size = int(self._starts[row]), int(self._sizes[row])
        content = self._repaired[-1 - start : size - 1 - start] if start < 0 else self._read(start, size)
        return content.decode("utf-8", "replace")

    def _rows(self) -> Iterator[str]:
        for first in range(0, len(self), _BLOCK):
            starts, sizes = self._starts[first : first + _BLOCK], self._sizes[first : first + _BLOCK]
            low, high = int(starts.min()), int((starts + sizes).max())
            if low < 0 or high - low > int(sizes.sum()) + _SPREAD:
                yield from map(self._row, range(first, first + len(starts)))
                continue
            block = self._read(low, high - low)
            for start, size in zip((starts - low).tolist(), sizes.tolist(), strict=True):
                yield block[start : start + size].decode("utf-8", "replace")

    def _read(self, start: int, size: int) -> bytes:
        content = os.pread(self._file, size, start)
        if len(content) < size:
            self._refuse()
        return content

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._file)
        return status.st_size, status.st_mtime_ns

    def _refuse(self) -> NoReturn:
        raise DataError(f"{self.path}: was overwritten while it was in use; start again")


class Column(Mapping[str, float]):
    """A number for each row of a packed table, by id.

    Args:
        table: The table.
        numbers: The numbers, (N,) float64; a row with NaN has none.
    """

    def __init__(self, table: PackedTable, numbers: "NDArray[np.float64]"):
        self.table, self.numbers = table, numbers

    def __len__(self) -> int:
        import numpy as np

        return int(np.count_nonzero(~np.isnan(self.numbers)))

    def __iter__(self) -> Iterator[str]:
        return (key for key, number in zip(self.table, self.numbers, strict=True) if number == number)

    def __getitem__(self, key: str) -> float:
        number = float(self.numbers[self.table.row_of(key)])
        if number != number:
            raise KeyError(key)
        return number


class Rows:
    """The rows of a table as they are read, in the order of the file.

    Args:
        path: The file.

    Attributes:
        last: The id of the last row; "" before the first row.
    """

    def __init__(self, path: Path):
        self.path = path
        self._starts, self._sizes, self._numbers = array("q"), array("I"), array("q")
        self._repaired = bytearray()
        self.last = ""
        self._increasing = True

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, number: int, key: str, row: str, line: str, start: int, size: int) -> None:
        """Add a row.

        Args:
            number: Number of its line, from 1.
            key: Its id.
            row: Its id, a space and its value; the id alone if there is no value.
            line: Its line as it is in the file.
            start: First byte of the line in the file, or -1.
            size: Number of bytes of the line.
        """
        if start < 0 or row != line:
            content = row.encode("utf-8")
            start, size = -1 - len(self._repaired), len(content)
            self._repaired += content
        self._starts.append(start)
        self._sizes.append(size)
        self._numbers.append(number)
        self._increasing = self._increasing and (key > self.last or len(self) == 1)
        self.last = key

    def packed(self, plain: bool) -> tuple[PackedTable, dict[int, tuple[int, str, int]], bool]:
        """Sort the rows.

        Args:
            plain: Whether nothing was repaired.

        Returns:
            The table, in which the first of several rows with the same id counts; for each other row, by its number
            from 0 in the file, its line, its id and the line of the first row; and whether the rows were in order.
        """
        import numpy as np

        starts, sizes = np.array(self._starts, np.int64), np.array(self._sizes, np.uint32)
        table = PackedTable(self.path, starts, sizes, self._repaired, plain and self._increasing and not self._repaired)
        if self._increasing:
            return table, {}, True
        keys = list(table)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        twice, unique = {}, order[:1]
        for row in order[1:]:
            if keys[row] == keys[unique[-1]]:
                twice[row] = (self._numbers[row], keys[row], self._numbers[unique[-1]])
            else:
                unique.append(row)
        rows = np.array(unique, np.int64)
        in_order = bool((np.diff(rows) > 0).all())
        return PackedTable(self.path, starts[rows], sizes[rows], self._repaired, False), twice, in_order


class Spool:
    """The positions of rows in a file, added in any order; the rows are read sorted by id.

    Rows that alternate between a few sorted sequences, such as several speeds, are merged; for other rows the ids are
    held while they are sorted.

    Args:
        path: The file.
    """

    def __init__(self, path: Path):
        self.path = path
        self._sequences, self._count = [Rows(path)], 0

    def __len__(self) -> int:
        return self._count

    def add(self, key: str, row: str, start: int, size: int) -> None:
        """Add a row (id, space and value), which has `size` bytes in the file from byte `start` on."""
        places = next((one for one in self._sequences if one.last < key), None)
        if places is None:
            self._sequences += [Rows(self.path)] if len(self._sequences) < _SEQUENCES else []
            places = self._sequences[-1]
        self._count += 1
        places.add(self._count, key, row, row, start, size)

    def table(self) -> tuple[Mapping[str, str], list[str]]:
        """The rows, of which one counts if several have the same id; and the ids that occur again, sorted.

        The content of the file can be read as long as the table exists, even if the file is deleted.
        """
        packed = [one.packed(plain=False) for one in self._sequences]
        tables = [table for table, _, _ in packed]
        twice = [key for _, again, _ in packed for _, key, _ in again.values()]
        if len(tables) == 1:
            return tables[0], twice
        twice += [key for key, following in pairwise(merge(*tables)) if key == following]
        return Joined(tables), sorted(twice)


def spool(path: Path, rows: Iterable[tuple[str, str]]) -> tuple[Mapping[str, str], list[str]]:
    """Sort rows by id without holding them: they are written to a file as they come, and are read from there.

    Args:
        path: The file to write; it is deleted.
        rows: Ids and values, without line ends.

    Returns:
        See `Spool.table`.
    """
    positions, start = Spool(path), 0
    try:
        with named_if_full(path), path.open("wb") as file:
            for key, value in rows:
                row = f"{key} {value}"
                size = file.write(row.encode("utf-8"))
                positions.add(key, row, start, size)
                start += size
        return positions.table()
    finally:
        path.unlink(missing_ok=True)
