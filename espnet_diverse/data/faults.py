"""Faults of data, collected so that a user sees all of them in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass

from espnet_diverse.errors import DataError

NAMED = 3


@dataclass(frozen=True)
class Fault:
    """A fault in a file.

    Attributes:
        file: The file or table.
        where: A line number (from 1), or the id of an utterance or recording; None for the file as a whole.
        what: What is wrong and, unless obvious, what to do.
    """

    file: str
    where: int | str | None
    what: str

    def __str__(self) -> str:
        if self.where is None:
            return f"{self.file}: {self.what}"
        space = "" if isinstance(self.where, int) else " "
        return f"{self.file}:{space}{self.where}: {self.what}"


class FaultsError(DataError):
    """Several faults: the message lists the first few and counts the rest, the attribute `faults` has all."""

    def __init__(self, faults: Sequence[Fault]):
        self.faults = list(faults)
        named = "; ".join(str(fault) for fault in self.faults[:NAMED])
        more = len(self.faults) - NAMED
        rest = f"; and {more} more" if more > 0 else ""
        super().__init__(f"{len(self.faults)} faults: {named}{rest}" if len(self.faults) > 1 else named)


def refuse(faults: Sequence[Fault]) -> None:
    """Raise one `FaultsError` for all `faults`; return if there are none."""
    if faults:
        raise FaultsError(faults)
