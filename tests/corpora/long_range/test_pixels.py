"""Generated images, whose shape a comparison with cut out and scaled masks finds again."""

import random

import numpy as np
import pytest

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.long_range import pixels
from espnet_diverse.errors import DataError


def mask_of(text):
    """Pixels on the side of the mean that the corners are not on, cut to the shape."""
    side = round(len(text) ** 0.5)
    image = np.array([int(each, 16) for each in text]).reshape(side, side)
    mask = image > (image.min() + image.max()) / 2
    corners = mask[[0, 0, -1, -1], [0, -1, 0, -1]]
    mask = mask != (corners.sum() > 2)
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def drawn_by_hand():
    """Each shape on 60 by 60 points, from its outline in words, without the module's functions."""
    y, x = (np.mgrid[:60, :60] + 0.5) / 30 - 1
    radius, edge, inner = np.hypot(x, y), np.maximum(abs(x), abs(y)), np.minimum(abs(x), abs(y))
    band = [np.isin((each + 1) // 0.4, (0, 2, 4)) for each in (y, x)]
    return {
        "disc": radius < 1,
        "ring": (radius > 0.63) & (radius < 1),
        "square": edge < 1,
        "frame": edge > 0.61,
        "diamond": abs(x) + abs(y) < 1,
        "triangle": y + 1 > 2 * abs(x),
        "plus": inner < 0.28,
        "cross": abs(abs(x) - abs(y)) < 0.33,
        "rows": band[0],
        "columns": band[1],
    }


def test_every_class_is_the_shape_of_its_image(tmp_path):
    selection = Selection(lengths=(900, 1300), counts=(200, 10, 10))
    sets = pixels.prepare(pixels.generate(tmp_path / "pixels", selection))
    shapes, right, sizes = drawn_by_hand(), [], set()
    for utterance, text in sets["train"].text.items():
        mask = mask_of(text)
        rows, columns = (np.arange(60) * count // 60 for count in mask.shape)
        scaled = mask[rows][:, columns]
        found = max(shapes, key=lambda name: (scaled == shapes[name]).mean())
        right.append(found == sets["train"].conditions["utt2domain"][utterance])
        sizes.add(len(text))
    assert np.mean(right) > 0.95 and sizes == {900, 961, 1024, 1089, 1156, 1225, 1296}
    assert set(sets["train"].conditions["utt2domain"].values()) == set(shapes)
    assert {len(text) for text in sets["dev"].text.values()} <= sizes


def test_no_square_has_so_many_pixels(tmp_path):
    assert pixels.draw(random.Random(0), 1025, 1050) is None
    with pytest.raises(DataError, match="no other text of 1025 to 1050"):
        pixels.generate(tmp_path / "pixels", Selection(lengths=(1025, 1050), counts=(1, 1, 1)))


@pytest.mark.parametrize(("row", "said"), [("01f2\tdisc", ""), ("01x2\tdisc", "'x'"), ("01f\tdisc", "3 pixels")])
def test_tables_of_others(write_texts, row, said):
    tree = write_texts({f"{name}.tsv": [row] for name in ("train", "val", "test")})
    if not said:
        assert pixels.prepare(tree)["dev"].text == {"dev-0000001": "01f2"}
        return
    with pytest.raises(DataError, match=f"tsv:1: .*{said}"):
        pixels.prepare(tree)
