"""Progress of long operations on a stderr that is not a terminal."""

import pytest

from espnet_diverse.progress import progress


def test_items_pass_through_and_the_last_line_counts_them(capfd):
    assert list(progress(iter("abc"), "train epoch 3", total=4, unit="step")) == ["a", "b", "c"]
    assert capfd.readouterr().err.startswith("train epoch 3: 3/4 steps, ")


def test_the_total_is_the_length_of_the_items(capfd):
    assert list(progress([1, 2], "valid")) == [1, 2]
    assert capfd.readouterr().err.startswith("valid: 2/2 items, ")


@pytest.mark.parametrize(("every", "lines"), [(0.0, 4), (100.0, 1)])
def test_lines_appear_at_intervals(capfd, every, lines):
    list(progress(iter(range(3)), "decode", every_seconds=every))
    assert len(capfd.readouterr().err.splitlines()) == lines
