"""Statistics that cannot normalise features are refused before training."""

import numpy as np
import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.training.statistics import check_statistics, differ, read_statistics


@pytest.fixture
def path(tmp_path):
    return tmp_path / "feats_stats.npz"


def write(path, **changes):
    """Statistics of 100 frames of 3 features of mean 2 and variance 5."""
    arrays = {"count": 100, "sum": np.full(3, 200.0, "f"), "sum_square": np.full(3, 900.0, "f")} | changes
    np.savez(path, **{name: np.asarray(array) for name, array in arrays.items() if array is not None})


def test_sound_statistics_pass(path):
    write(path)
    check_statistics(path)
    assert read_statistics(path).keys() == {"count", "sum", "sum_square"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sum": [200.0, np.nan, 200.0]}, "sum of the features are not finite; check the audio for NaN samples"),
        ({"sum_square": [900.0, 400.0, 900.0]}, r"the variance of feature 1 \(0\) is zero or negative"),
        ({"sum_square": [900.0, 900.0, 300.0]}, r"the variance of feature 2 \(-1\) is zero or negative"),
        ({"sum_square": np.zeros(3)}, r"feature 0 \(-4\), 1 \(-4\), 2 \(-4\) is zero or negative"),
        ({"sum": np.zeros(9), "sum_square": np.zeros(9)}, r"4 \(0\) and 4 more is zero or negative"),
        ({"count": 0}, "its count is 0 frames"),
        ({"count": -3}, "its count is -3 frames"),
        ({"sum": None}, "has no sum; run espnet-diverse stats again"),
    ],
)
def test_what_cannot_normalise_is_refused(path, changes, said):
    write(path, **changes)
    with pytest.raises(DataError, match=said):
        check_statistics(path)


def test_damaged_files_are_named(path):
    with pytest.raises(DataError, match="no such file; espnet-diverse stats writes it"):
        read_statistics(path)
    write(path)
    content = path.read_bytes()
    np.save(path.with_suffix(".npy"), np.array([{}], object), allow_pickle=True)
    for damaged in (b"", content[:40], content[:-40], path.with_suffix(".npy").read_bytes(), b"x" * 200):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="is damaged or not a file of statistics; run espnet-diverse stats again"):
            read_statistics(path)


def test_sums_in_another_order_do_not_differ(path, tmp_path):
    write(path)
    for sums, other in (([200.0001, 200, 200], False), ([201, 200, 200], True), ([200, 200], True)):
        write(tmp_path / "other.npz", sum=sums)
        assert differ(path, tmp_path / "other.npz") is other
