"""Masks: True = may attend."""

import pytest
import torch

from espnet_diverse.functional.masks import causal, lengths_to_mask


def test_causal_position_sees_itself_and_the_past():
    assert causal(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_lengths_of_any_shape():
    mask = lengths_to_mask(torch.tensor([[0, 2], [3, 1]]), 3)
    assert mask.dtype == torch.bool
    assert mask.sum(-1).tolist() == [[0, 2], [3, 1]]
    assert mask[0, 1].tolist() == [True, True, False]


@pytest.mark.parametrize("length", [-1, 5])
def test_length_that_does_not_fit_is_refused(length):
    with pytest.raises(ValueError, match=f"length {length} does not fit in 4 positions; lengths run from 0 to 4"):
        lengths_to_mask(torch.tensor([2, length]), 4)
