"""Axes of the positions that an attention reads or predicts: tokens, or the frames of an encoder in seconds."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from matplotlib.axis import Axis
from matplotlib.font_manager import FontProperties, fontManager, get_font

from espnet_diverse.decoding.frame_times import FrameTimes


@dataclass(frozen=True)
class Positions:
    """The positions of an axis.

    Attributes:
        count: Number of positions.
        tokens: Their tokens: those that are predicted, or, from <sos> on, read. None: they are encoder frames.
        times: Times of the frames. None: they are counted.
        counted: What is counted.
    """

    count: int
    tokens: Sequence[str] | None = None
    times: FrameTimes | None = None
    counted: str = "encoder frame"

    @property
    def bounds(self) -> tuple[float, float]:
        """Begin of the first position on the axis, and end of the last one."""
        if self.tokens is None and self.times is not None:
            return self.times.boundary(0), self.times.boundary(self.count)
        return -0.5, self.count - 0.5

    @property
    def name(self) -> str:
        """Name of a position, with its unit."""
        if self.tokens is not None:
            return "token read" if self.tokens[0] == "<sos>" else "token predicted"
        return self.counted if self.times is None else "time (s)"

    def describe(self, axis: Axis, role: str = "", most: float = 9.0) -> None:
        """Label an axis: its name with the role of the positions, and tokens in at most so many points."""
        name = f"{self.name}, {role}" if role else self.name
        if self.tokens is not None:
            labels, font = drawable(self.tokens)
            axis.set_ticks(range(self.count), labels, fontproperties=font, fontsize=most)
            if any(label != token for label, token in zip(labels, self.tokens, strict=True)):
                name += "\n(#n: no font here has token n)"
        elif self.times is None:
            axis.get_major_locator().set_params(integer=True)
        axis.set_label_text(name)


def drawable(tokens: Sequence[str]) -> tuple[list[str], FontProperties]:
    """Return tokens as labels, and a font that has all their characters.

    Where no font of the machine has them all, tokens that the default font lacks are numbers such as "#3", counted from
    1 without <sos>, and a warning says what to install.
    """
    # The "Last Resort" font has every character, all as boxes.
    fonts = [f for f in fontManager.ttflist if (f.style, f.weight) == ("normal", 400) and "Last Resort" not in f.name]
    fonts.sort(key=lambda font: (font.name != "DejaVu Sans", font.name))
    for font in fonts:
        if _has(font.fname, "".join(tokens)):
            return list(tokens), FontProperties(fname=font.fname)
    default = fonts[0].fname
    lacking = next(token for token in tokens if not _has(default, token))
    _warn(f"no font of this machine has the characters of tokens such as {lacking!r}; figures number them: install one")
    labels = [
        token if _has(default, token) else f"#{number}" for number, token in enumerate(tokens, tokens[0] != "<sos>")
    ]
    return labels, FontProperties(fname=default)


@cache
def _warn(message: str) -> None:
    """Warn once."""
    logging.warning("%s, such as Noto Sans CJK", message)


def _has(font: str, characters: str) -> bool:
    return all(get_font(font).get_char_index(ord(character)) for character in characters)
