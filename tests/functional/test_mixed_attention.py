"""Parts of SDMA's dense attention. Its weights are compared with loops and `blockwise` in test_blockwise.py."""

import math

import pytest
import torch

from espnet_diverse.functional.mixed_attention import (
    coefficients_of,
    excluded,
    huge,
    mixed_weights,
    with_ones,
)


def test_a_mask_is_bool(draw):
    tensors = [draw.normal(5, 4), draw.normal(6, 4), draw.posterior(5, 3), draw.posterior(6, 3)]
    with pytest.raises(ValueError, match="^the mask is torch.int64; give bool, True = may attend$"):
        mixed_weights(*tensors, 0.6, torch.ones(5, 6, dtype=torch.int64))
    assert excluded(torch.tensor([True, False])).tolist() == [False, True]


def test_parts_of_the_equations(draw):
    for dtype in (torch.float32, torch.float64):
        assert math.isfinite(2 * huge(torch.zeros(1, dtype=dtype)))
    p = draw.posterior(1, 4, 3).transpose(-2, -1)
    ones = torch.ones(1, 1, 4, dtype=torch.float64)
    found = coefficients_of(p, 2 * ones, 0.25, 3 * ones)
    torch.testing.assert_close(found, torch.cat([0.125 * p, 0.25 * ones], -2))
    assert torch.equal(with_ones(p), torch.cat([p, ones], -2))
