"""Generated curves: marked discs that are connected are in one part of the image once gaps of a pixel are closed."""

import random

import numpy as np
import pytest
from scipy.ndimage import binary_dilation, label

from espnet_diverse.corpora.long_range import pathfinder

SQUARE = np.ones((3, 3), bool)


def parts(text):
    """Number of curves, number of discs, and the curves that have discs."""
    side = round(len(text) ** 0.5)
    image = np.array([int(each, 16) for each in text]).reshape(side, side)
    assert set(np.unique(image)) == {0, 9, 15}
    curves, count = label(binary_dilation(image == 9, SQUARE) | (image == 15), SQUARE)
    discs, of_discs = label(image == 15, SQUARE)
    return count, of_discs, {int(curves[discs == number].max()) for number in range(1, of_discs + 1)}


@pytest.mark.parametrize(("least", "greatest"), [(1024, 1024), (1024, 2000)])
def test_the_class_is_whether_a_curve_connects_the_discs(least, greatest):
    chance, classes = random.Random(2), []
    for _ in range(80):
        drawn = pathfinder.draw(chance, least, greatest)
        if drawn is None:
            continue
        count, discs, marked = parts(drawn[0])
        assert (count, discs) == (4, 2)
        assert drawn[1] == ("connected" if len(marked) == 1 else "not_connected")
        classes.append(drawn[1])
    assert len(classes) > 60 and 0.3 < np.mean([each == "connected" for each in classes]) < 0.7


def test_a_small_image_has_room(tmp_path):
    chance = random.Random(3)
    drawn = [pathfinder.draw(chance, 576, 576) for _ in range(50)]
    assert sum(each is not None for each in drawn) > 5
    assert pathfinder.draw(chance, 577, 600) is None
