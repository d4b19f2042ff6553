"""Shares of padding: by hand, and smaller where batches have utterances of similar length."""

import numpy as np
import pytest

from espnet_diverse.training.data.batch_types import BatchOptions, Shapes
from espnet_diverse.training.data.padding import Padding, padding, report


def shapes(**lengths):
    return {name: Shapes(np.array(each), 1) for name, each in lengths.items()}


def test_shares_of_frames_and_of_attention():
    given = shapes(speech=[4, 2, 3, 3], text=[1, 1, 5, 1])
    found = padding(given, BatchOptions(type="unsorted", batch_size=2), types=["sorted"])
    assert list(found) == ["unsorted", "sorted"] and found["unsorted"][:2] == (2, 2.0)
    shares = found["unsorted"].shares
    assert shares["speech"] == pytest.approx((1 - 12 / (8 + 6), 1 - (16 + 4 + 18) / (2 * 16 + 2 * 9)))
    assert shares["text"] == pytest.approx((1 - 8 / (2 + 10), 1 - 28 / (2 + 50)))
    assert found["sorted"].shares["speech"] == pytest.approx((1 - 12 / (8 + 6), 1 - 38 / (2 * 16 + 2 * 9)))


def test_batches_of_other_types_are_as_large_and_have_less_padding_if_sorted():
    random = np.random.default_rng(0)
    target = random.integers(5, 80, 2000)
    given = {"text": Shapes(target, 30), "src_text": Shapes(target + random.integers(0, 9, 2000), 40)}
    found = padding(given, BatchOptions(type="unsorted", batch_size=16, fold_lengths=(80, 80)))
    assert set(found) == {"unsorted", "sorted", "folded", "length", "numel", "tokens"}
    for kind in ("sorted", "length", "numel", "tokens"):
        assert found[kind].utterances == pytest.approx(16, rel=0.2), kind
        assert found[kind].shares["text"][0] < 0.05 < 0.3 < found["unsorted"].shares["text"][0]
    assert found["tokens"].shares["src_text"][0] < found["numel"].shares["src_text"][0]  # sorted by both sides


def test_types_that_do_not_suit_the_data_are_left_out():
    given = {"speech": Shapes(np.array([3, 4, 5]), None), "text": Shapes(np.array([1, 2, 3]), 1)}
    assert list(padding(given, BatchOptions(type="length", batch_bins=10, fold_lengths=(5,)))) == [
        *("length", "unsorted", "sorted", "tokens"),
    ]


def test_the_report_advises_a_type_only_where_padding_is_much():
    tight = {"length": Padding(12, 9.5, {"speech": (0.02, 0.04)})}
    loose = {"unsorted": Padding(10, 11.4, {"speech": (0.26, 0.35)})}
    head, _, row, *more = report({**tight, **loose}).splitlines()
    assert (
        head
        == "| batch_type | batches | utterances a batch | padding of speech, frames | padding of speech, attention |"
    )
    assert row == "| length | 12 | 9.5 | 2.0 % | 4.0 % |" and len(more) == 1
    assert report({**loose, **tight}).splitlines()[-1] == "26 % of the frames are padding; batch_type: length has 2 %"
