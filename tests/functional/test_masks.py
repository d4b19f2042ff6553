"""Masks: True = may attend."""

import pytest
import torch

from espnet_diverse.functional.masks import causal, lengths_to_mask, masked_mean


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


@pytest.mark.parametrize("dim", [-1, -2])
def test_masked_mean_averages_the_valid_values(dim):
    torch.manual_seed(0)
    x, valid = torch.randn(3, 4, 5).double(), torch.rand(3, 4, 5) < 0.6
    expected = torch.stack(
        [
            row[keep].mean()
            for row, keep in zip(
                x.movedim(dim, -1).reshape(-1, x.size(dim)),
                valid.movedim(dim, -1).reshape(-1, x.size(dim)),
                strict=True,
            )
        ]
    )
    torch.testing.assert_close(masked_mean(x, valid, dim).flatten(), expected.nan_to_num(0.0))
    torch.testing.assert_close(masked_mean(x, None, dim), x.mean(dim))


def test_masked_mean_of_nothing_is_zero_with_a_finite_gradient():
    x = torch.randn(2, 3).double().requires_grad_()
    valid = torch.tensor([[False] * 3, [True, False, True]])
    assert masked_mean(x, valid)[0] == 0
    assert torch.autograd.gradcheck(lambda x: masked_mean(x, valid), x)


def test_masked_mean_of_vectors_takes_a_mask_of_their_positions():
    x, valid = torch.randn(2, 3, 4), torch.tensor([[True, True, False], [False, False, True]])
    expected = torch.stack([x[0, :2].mean(0), x[1, 2]])
    torch.testing.assert_close(masked_mean(x, valid.unsqueeze(-1), -2), expected)
