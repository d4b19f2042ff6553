"""Views of tables, which store no rows themselves: with other values, without some rows, or joined.

A view is sorted by id, like the tables that it is made of.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from heapq import merge
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any


class TableView[Value](Mapping[str, Value]):
    """A table that yields its rows one by one, in the order of their ids."""

    @abstractmethod
    def pairs(self) -> Iterator[tuple[str, Value]]:
        """Ids and values."""

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.pairs())

    def items(self) -> ItemsView[str, Value]:
        """Ids and values, by `pairs`; the method of a mapping would look up each id."""
        return _Items(self)

    def values(self) -> ValuesView[Value]:
        """Values, by `pairs`."""
        return _Values(self)


class _Items[Value](ItemsView[str, Value]):
    _mapping: TableView[Value]

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return self._mapping.pairs()


class _Values[Value](ValuesView[Value]):
    _mapping: TableView[Value]

    def __iter__(self) -> Iterator[Value]:
        return (value for _, value in self._mapping.pairs())


class Mapped[Value](TableView[Value]):
    """A table with a function applied to its values."""

    def __init__(self, table: Mapping[str, Any], function: Callable[[Any], Value]):
        self.table, self.function = table, function

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, key: str) -> Value:
        return self.function(self.table[key])

    def pairs(self) -> Iterator[tuple[str, Value]]:
        """Ids and values."""
        return ((key, self.function(value)) for key, value in self.table.items())


class Without[Value](TableView[Value]):
    """The rows of a table without the rows of some ids."""

    def __init__(self, table: Mapping[str, Value], left_out: Collection[str]):
        self.table, self.left_out = table, left_out

    def __bool__(self) -> bool:
        return next(self.pairs(), None) is not None

    def __len__(self) -> int:
        return len(self.table) - sum(key in self.table for key in self.left_out)

    def __getitem__(self, key: str) -> Value:
        if key in self.left_out:
            raise KeyError(key)
        return self.table[key]

    def pairs(self) -> Iterator[tuple[str, Value]]:
        """Ids and values."""
        return ((key, value) for key, value in self.table.items() if key not in self.left_out)


class Joined[Value](TableView[Value]):
    """The rows of several tables; if several have the same id, the last counts."""

    def __init__(self, tables: Sequence[Mapping[str, Value]]):
        self.tables = [table for table in tables if table]
        self._count = -1

    def __bool__(self) -> bool:
        return bool(self.tables)

    def __len__(self) -> int:
        if self._count < 0:
            self._count = sum(1 for _ in self.pairs())
        return self._count

    def __getitem__(self, key: str) -> Value:
        for table in reversed(self.tables):
            if key in table:
                return table[key]
        raise KeyError(key)

    def pairs(self) -> Iterator[tuple[str, Value]]:
        """Ids and values."""
        rows = merge(*(table.items() for table in self.tables), key=itemgetter(0))
        last = next(rows, None)
        for row in rows:
            if last is not None and row[0] != last[0]:
                yield last
            last = row
        if last is not None:
            yield last


class Same[Value](TableView[Value]):
    """One value for all ids of a table."""

    def __init__(self, table: Mapping[str, Any], value: Value):
        self.table, self.value = table, value

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, key: str) -> Value:
        if key in self.table:
            return self.value
        raise KeyError(key)

    def pairs(self) -> Iterator[tuple[str, Value]]:
        """Ids and values."""
        return ((key, self.value) for key in self.table)


class Grouped(TableView[str]):
    """The ids of each value of a table, separated by spaces, such as the utterances of each speaker.

    Args:
        rows: Ids and values, sorted by id, with values that do not decrease: `can_group`.
    """

    def __init__(self, rows: Collection[tuple[str, str]]):
        self.rows = rows
        self._count = -1

    @staticmethod
    def can_group(rows: Collection[tuple[str, str]]) -> bool:
        """Return whether the values do not decrease, as when ids begin with the speaker."""
        return all(value <= later for (_, value), (_, later) in pairwise(rows))

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __len__(self) -> int:
        if self._count < 0:
            self._count = sum(1 for _ in groupby(self.rows, key=itemgetter(1)))
        return self._count

    def __getitem__(self, key: str) -> str:
        for value, ids in self.pairs():
            if value == key:
                return ids
        raise KeyError(key)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Values, and their ids."""
        return ((value, " ".join(key for key, _ in rows)) for value, rows in groupby(self.rows, key=itemgetter(1)))


def in_order(table: Mapping[str, Any]) -> Iterable[str]:
    """The ids of a table, sorted; tables other than dicts are sorted already."""
    return sorted(table) if isinstance(table, dict) else table


def items_in_order[Value](table: Mapping[str, Value]) -> Collection[tuple[str, Value]]:
    """The ids and values of a table, sorted."""
    return sorted(table.items()) if isinstance(table, dict) else table.items()


def lacking(table: Mapping[str, object], keys: Mapping[str, object]) -> Iterator[str]:
    """The ids among `keys` that a table lacks, sorted."""
    if table is keys:
        return
    table_keys = iter(in_order(table))
    other = next(table_keys, None)
    for key in in_order(keys):
        while other is not None and other < key:
            other = next(table_keys, None)
        if other != key:
            yield key
