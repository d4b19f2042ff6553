"""One sentence's alignment of reference and hypothesis, printed like sclite's `pra` report."""

import unicodedata
from collections import Counter
from dataclasses import dataclass

# Reference unit (None where one was inserted) and hypothesis unit (None where one was deleted), side by side.
Pairs = tuple[tuple[str | None, str | None], ...]


@dataclass(frozen=True)
class Alignment:
    """Units of one sentence side by side.

    Attributes:
        utterance: Its id.
        pairs: Its units.
    """

    utterance: str
    pairs: Pairs

    def __str__(self) -> str:
        """Five lines: id; numbers of correct, substituted, deleted and inserted units; REF; HYP; the marks S, D, I."""
        rows: list[list[str]] = [["REF: "], ["HYP: "], ["Eval:"]]
        marks = [_mark(*pair) for pair in self.pairs]
        for pair, mark in zip(self.pairs, marks, strict=True):
            cells = [*map(_shown, pair), mark]
            width = max(map(_width, cells))
            for row, cell in zip(rows, cells, strict=True):
                row.append(cell + " " * (width - _width(cell)))
        counts = " ".join(str(Counter(marks)[mark]) for mark in " SDI")
        lines = [f"id: {self.utterance}", f"Scores: (#C #S #D #I) {counts}", *(" ".join(row).rstrip() for row in rows)]
        return "\n".join(lines) + "\n"


def _mark(reference: str | None, hypothesis: str | None) -> str:
    if reference is None:
        return "I"
    if hypothesis is None:
        return "D"
    return " " if reference == hypothesis else "S"


def _shown(unit: str | None) -> str:
    return {None: "*", " ": "<space>"}.get(unit, unit)


def _width(text: str) -> int:
    """Columns of `text` on a terminal: East Asian wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )
