"""Masks: True = may attend."""

from pathlib import Path

import numpy as np
import pytest
import torch
from references import efficient as oracle

from espnet_diverse.functional.masks import causal, fixed, lengths_to_mask, sliding, with_global


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


GOLDEN = {
    name: torch.tensor(array)
    for name, array in np.load(Path(__file__).resolve().parents[1] / "golden" / "methods" / "sparse_masks.npz").items()
}
SPARSE = {
    "window_w3": sliding(20, 3),
    "window_w2_dil3": sliding(20, 2, 3),
    "window_w3_causal": sliding(20, 3) & causal(20),
    "window_w2_dil2_causal": sliding(20, 2, 2) & causal(20),
    "global_window_w2_g0_7": with_global(sliding(20, 2), [0, 7]),
    "full_when_w_ge_n": sliding(20, 25),
    "fairseq_sparse_stride4_expr2_bidir1": fixed(20, 4, 2),
    "fairseq_sparse_stride4_expr2_bidir0": fixed(20, 4, 2) & causal(20),
}


@pytest.mark.parametrize("name", [name for name, array in GOLDEN.items() if array.dtype == torch.bool])
def test_sparse_masks_and_attention_under_them(name):
    assert torch.equal(SPARSE[name], GOLDEN[name])
    q, k, v = (GOLDEN[x] for x in "qkv")
    out = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], SPARSE[name])[0]
    torch.testing.assert_close(out, GOLDEN[f"out_{name}"], atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(("window", "dilation"), [(0, 1), (2, 1), (3, 2), (30, 4)])
def test_a_window_equals_loops(window, dilation):
    assert torch.equal(sliding(11, window, dilation), torch.tensor(oracle.window_mask(11, window, dilation)))


def test_global_positions_leave_the_mask_that_they_are_given():
    mask = sliding(5, 0)
    assert with_global(mask, [2]).sum() == 5 + 4 + 4
    assert torch.equal(mask, torch.eye(5, dtype=torch.bool))
