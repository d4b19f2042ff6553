"""Images as sequences of pixels, row by row, with the shape that they show as the class.

Long Range Arena classifies photographs of 32 by 32 grey pixels (Tay et al. 2021, section 2.2.4). Here the images are
generated: one of ten shapes, of any size, place and brightness, on a noisy background. A model that reads them as a
text must find out which pixels are above each other.

The text has one character for each pixel, 0 to 9 and a to f for its brightness. Images are square. Tables of other
images in this layout are read as well, with classes of any name.
"""

import random
from collections.abc import Callable
from math import isqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.corpora import EVERYTHING, Selection, long_range
from espnet_diverse.data.characters import id_fault
from espnet_diverse.data.kaldi import DataDir

SETS, TABLES, OPTIONS = long_range.SETS, long_range.TABLES, long_range.OPTIONS
NO_DOWNLOAD = "pixels is generated: give --corpus synthetic, or a folder of tables of your own as SOURCE"
LENGTHS = (1024, 1024)
"""Least and greatest number of pixels."""
LEVELS = "0123456789abcdef"
SMALLEST = 16
"""Least height and width."""
Grid = NDArray[np.float64]

SHAPES: dict[str, Callable[[Grid, Grid], NDArray[np.bool_]]] = {
    "disc": lambda x, y: x**2 + y**2 < 1,
    "ring": lambda x, y: (x**2 + y**2 > 0.4) & (x**2 + y**2 < 1),
    "square": lambda x, y: _square(x, y),
    "frame": lambda x, y: _square(x, y) & (np.maximum(abs(x), abs(y)) > 0.55),
    "diamond": lambda x, y: abs(x) + abs(y) < 1,
    "triangle": lambda x, y: (y < 0.9) & (y > 2 * abs(x) - 0.9),
    "plus": lambda x, y: _square(x, y) & (np.minimum(abs(x), abs(y)) < 0.25),
    "cross": lambda x, y: _square(x, y) & (abs(abs(x) - abs(y)) < 0.3),
    "rows": lambda x, y: _square(x, y) & (np.floor((y + 0.9) / 0.36) % 2 == 0),
    "columns": lambda x, y: _square(x, y) & (np.floor((x + 0.9) / 0.36) % 2 == 0),
}
"""The classes: where a shape is, by the distances to its centre in units of its size, to the right and downwards."""


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the tables; arguments, result and errors as in `listops.prepare`."""
    return long_range.read_sets(corpus_dir, selection, checked, lambda label: bool(label) and not id_fault(label))


def generate(target_dir: Path, selection: Selection = EVERYTHING, size: str = "demo") -> Path:
    """Write tables of images to `target_dir`, which `prepare` reads; see `long_range.generate_sets`."""
    return long_range.generate_sets(target_dir, selection, size, draw, LENGTHS, SMALLEST**2)


def checked(source: str) -> tuple[str, str]:
    """Return an image, and its fault if its pixels are no square of known levels, or ""."""
    if unknown := next((character for character in source if character not in LEVELS), None):
        return "", f"has the pixel {unknown!r}; known: {LEVELS}"
    reason = "" if isqrt(len(source)) ** 2 == len(source) else f"has {len(source)} pixels, which are no square"
    return source, reason


def written(image: NDArray[np.integer]) -> str:
    """The text of an image (side, side) of levels."""
    return "".join(LEVELS[level] for level in image.ravel().tolist())


def side_of(chance: random.Random, least: int, greatest: int) -> int | None:
    """Draw the side of a square of `least` to `greatest` pixels; None where there is none."""
    low, high = max(SMALLEST, isqrt(max(least - 1, 0)) + 1), isqrt(greatest)
    return chance.randint(low, high) if low <= high else None


def draw(chance: random.Random, least: int, greatest: int) -> tuple[str, str] | None:
    """Draw an image and its class; None where no square has so many pixels."""
    side, shape = side_of(chance, least, greatest), chance.choice(list(SHAPES))
    if side is None:
        return None
    radius = chance.uniform(0.3, 0.45) * side
    x, y = (chance.uniform(radius, side - radius) for _ in range(2))
    places = np.arange(side) + 0.5
    is_shape = SHAPES[shape]((places - x)[None, :] / radius, (places - y)[:, None] / radius)
    dark, bright = chance.randint(1, 5), chance.randint(10, 14)
    levels = (bright, dark) if chance.random() < 0.5 else (dark, bright)
    noise = np.random.default_rng(chance.getrandbits(64)).integers(-1, 2, (side, side))
    return written(np.where(is_shape, *levels) + noise), shape


def _square(x: Grid, y: Grid) -> NDArray[np.bool_]:
    return np.maximum(abs(x), abs(y)) < 0.9
