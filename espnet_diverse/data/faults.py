"""Faults of a data directory, gathered so that the user sees all of them in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass

from espnet_diverse.errors import DataError

NAMED = 3


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        file: The file or table it stands in.
        where: Line number (from 1), utterance or recording id, or None for the file as a whole.
        what: What is wrong and, where it is not plain, what to do.
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
    """Names the first few faults and counts the rest; `faults` holds all of them."""

    def __init__(self, faults: Sequence[Fault]):
        self.faults = list(faults)
        named = "; ".join(str(fault) for fault in self.faults[:NAMED])
        more = len(self.faults) - NAMED
        rest = f"; and {more} more" if more > 0 else ""
        super().__init__(f"{len(self.faults)} faults: {named}{rest}" if len(self.faults) > 1 else named)


def refuse(faults: Sequence[Fault]) -> None:
    """Raise one `FaultsError` for all of `faults`; do nothing where there is none."""
    if faults:
        raise FaultsError(faults)
