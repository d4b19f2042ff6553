"""Alignment of a reference and a hypothesis, printed like sclite's `pra` report."""

from collections import Counter
from dataclasses import dataclass

from espnet_diverse.data.characters import columns

# Pairs of reference unit (None for an insertion) and hypothesis unit (None for a deletion).
Pairs = tuple[tuple[str | None, str | None], ...]


@dataclass(frozen=True)
class Alignment:
    """Aligned units of one utterance.

    Attributes:
        utterance: Utterance id.
        pairs: Aligned units of reference and hypothesis.
    """

    utterance: str
    pairs: Pairs

    @property
    def marks(self) -> list[str]:
        """A mark for each pair: S, D or I for an error, a space for a correct unit."""
        return [_mark(*pair) for pair in self.pairs]

    def __str__(self) -> str:
        """Five lines: id; numbers of correct, substituted, deleted and inserted units; REF; HYP; marks S, D and I."""
        rows: list[list[str]] = [["REF: "], ["HYP: "], ["Eval:"]]
        marks = self.marks
        for pair, mark in zip(self.pairs, marks, strict=True):
            cells = [*({None: "*", " ": "<space>"}.get(unit, unit) for unit in pair), mark]
            width = max(map(columns, cells))
            for row, cell in zip(rows, cells, strict=True):
                row.append(cell + " " * (width - columns(cell)))
        counts = " ".join(str(Counter(marks)[mark]) for mark in " SDI")
        lines = [f"id: {self.utterance}", f"Scores: (#C #S #D #I) {counts}", *(" ".join(row).rstrip() for row in rows)]
        return "\n".join(lines) + "\n"


def _mark(reference: str | None, hypothesis: str | None) -> str:
    if reference is None:
        return "I"
    if hypothesis is None:
        return "D"
    return " " if reference == hypothesis else "S"
