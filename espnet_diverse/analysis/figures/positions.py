"""Axes of the positions that an attention reads or predicts: tokens, or the frames of an encoder in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axis import Axis

from espnet_diverse.decoding.frame_times import FrameTimes
from espnet_diverse.pictures import families


@dataclass(frozen=True)
class Positions:
    """The positions of an axis.

    Attributes:
        count: Number of positions.
        tokens: Their tokens: predicted ones, or from <sos> on the ones read. None: they are encoder frames.
        times: Times of the frames. None: they are counted.
        counted: Name of a position. By default tokens are predicted or read, and other positions are encoder frames.
    """

    count: int
    tokens: Sequence[str] | None = None
    times: FrameTimes | None = None
    counted: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        """Begin of the first position on the axis, and end of the last one."""
        if self.tokens is None and self.times is not None:
            return self.times.boundary(0), self.times.boundary(self.count)
        return -0.5, self.count - 0.5

    @property
    def name(self) -> str:
        """Name of a position, with its unit."""
        if self.counted:
            return self.counted
        if self.tokens is not None:
            return "token read" if self.tokens[0] == "<sos>" else "token predicted"
        return "encoder frame" if self.times is None else "time (s)"

    def describe(self, axis: Axis, role: str = "", most: float = 9.0) -> None:
        """Label an axis: its name with the role of the positions, and tokens in at most `most` points."""
        name = f"{self.name}, {role}" if role else self.name
        if self.tokens is not None:
            labels = drawable(self.tokens)
            axis.set_ticks(range(self.count), labels, fontsize=most)
            if labels != list(self.tokens):
                name += "\n(#n: no font here has token n)"
        elif self.times is None:
            axis.get_major_locator().set_params(integer=True)
        axis.set_label_text(name)


def drawable(tokens: Sequence[str]) -> list[str]:
    """Labels of tokens; tokens with characters that no font has are numbers such as "#3", from 1 without <sos>."""
    _, lacking = families("".join(tokens))
    numbered = enumerate(tokens, tokens[0] != "<sos>")
    return [f"#{number}" if lacking.intersection(token) else token for number, token in numbered]
