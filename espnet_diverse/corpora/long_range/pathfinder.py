"""Pathfinder: images of dashed curves, with whether two marked ends belong to the same curve as the class.

Linsley et al. 2018, "Learning long-range spatial dependencies with horizontal gated recurrent units", as in Long Range
Arena (Tay et al. 2021, section 2.2.5). An image has two long curves and some short ones that distract. Discs mark
either both ends of one long curve (`connected`) or one end of each (`not_connected`). Within a curve dashes are a pixel
apart, and different curves at least four.

The text has one character for each pixel, as in `pixels`: background, dashes, discs. Images are square. Tables of
other images in this layout are read as well.
"""

import random
from math import cos, pi, sin
from pathlib import Path

import numpy as np

from espnet_diverse.corpora import EVERYTHING, Selection, long_range
from espnet_diverse.corpora.long_range.pixels import LENGTHS, prepare, side_of, written

__all__ = ["draw", "generate", "prepare"]

SETS, TABLES, OPTIONS = long_range.SETS, long_range.TABLES, long_range.OPTIONS
NO_DOWNLOAD = "pathfinder is generated: give --corpus synthetic, or a folder of tables of your own as SOURCE"
CLASSES = {True: "connected", False: "not_connected"}
BACKGROUND, DASH, DISC = 0, 9, 15
_LONG, _SHORT = 0.75, 0.25
"""Lengths of curves as shares of the side."""
_DISTRACTING, _APART, _DASH, _TURN, _TRIES = 2, 5, 3, 0.3, 200
_SMALLEST = 24  # height and width with room for the curves
_Cell = tuple[int, int]


def generate(target_dir: Path, selection: Selection = EVERYTHING, size: str = "demo") -> Path:
    """Write tables of images to `target_dir`, which `prepare` reads; see `long_range.generate_sets`."""
    return long_range.generate_sets(target_dir, selection, size, draw, LENGTHS, _SMALLEST**2)


def draw(chance: random.Random, least: int, greatest: int) -> tuple[str, str] | None:
    """Draw an image and its class; None where no square has so many pixels, or the curves found no room."""
    side = side_of(chance, least, greatest)
    if side is None:
        return None
    room, curves = np.ones((side, side), bool), list[list[_Cell]]()
    for length in (_LONG, _LONG, *[_SHORT] * _DISTRACTING):
        curve = _curve(chance, room, round(length * side))
        if curve is None:
            return None
        curves.append(curve)
        for row, column in curve:
            room[max(0, row - _APART + 1) : row + _APART, max(0, column - _APART + 1) : column + _APART] = False
    image = np.full((side, side), BACKGROUND)
    for curve in curves:
        for number, cell in enumerate(curve):
            image[cell] = DASH if number % (_DASH + 1) < _DASH else BACKGROUND
    connected, first, second = chance.random() < 0.5, *curves[:2]
    for row, column in (first[0], first[-1] if connected else second[0]):
        image[row - 1 : row + 2, column - 1 : column + 2] = DISC
    return written(image), CLASSES[connected]


def _curve(chance: random.Random, room: np.ndarray, length: int) -> list[_Cell] | None:
    """The cells of a smooth curve where there is room, at least one from the border; None after some attempts."""
    side = len(room)
    for _ in range(_TRIES):
        row, column, angle = chance.uniform(2, side - 2), chance.uniform(2, side - 2), chance.uniform(0, 2 * pi)
        cells: list[_Cell] = []
        while len(cells) < length:
            cell = int(row), int(column)
            if not (min(cell) >= 1 and max(cell) < side - 1 and room[cell]):
                break
            if cell not in cells:
                cells.append(cell)
            angle += chance.gauss(0, _TURN)
            row, column = row + sin(angle), column + cos(angle)
        else:
            return cells
    return None
