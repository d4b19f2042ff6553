"""Reach of heads: the share of weight within a width against loops, and what is counted of pairs."""

import numpy as np
import pytest
import torch

from espnet_diverse.analysis.measures.reach import Reach, pairs_within, widths_up_to

WIDTHS = (1, 2, 4, 8)


def random_weights(time, seed=0):
    return torch.rand(2, 3, time, time, generator=torch.Generator().manual_seed(seed)).mul(4).softmax(-1)


def test_shares_equal_loops_over_pairs():
    reach, given = Reach(), [random_weights(7), random_weights(4, 1)]
    for weights in given:
        reach.add(weights)
    naive = np.zeros((2, 3, len(WIDTHS)))
    for weights in given:
        time = weights.size(-1)
        for n, h, i, j in np.ndindex(*weights.shape):
            for number, width in enumerate(WIDTHS):
                if abs(i - j) <= width:
                    naive[n, h, number] += weights[n, h, i, j].item() / time / len(given)
    np.testing.assert_allclose(reach.by_head(WIDTHS), naive, rtol=1e-6)
    assert reach.lengths() == [7, 4]


def test_the_narrowest_width_with_a_share_is_found():
    near, far = torch.eye(6), torch.eye(6).roll(3, 1)  # own position; three or more positions away
    reach = Reach()
    reach.add(torch.stack([near, far]).unsqueeze(0))
    assert reach.narrowest(WIDTHS, 0.9).tolist() == [[0, 2]]
    assert reach.narrowest(WIDTHS[:2], 0.9).tolist() == [[0, 1]]  # the last, although its share is 0
    assert reach.narrowest(WIDTHS, 2.0).tolist() == [[3, 3]]


@pytest.mark.parametrize(("positions", "widths"), [(1, (1,)), (2, (1,)), (3, (1, 2)), (9, (1, 2, 4, 8))])
def test_widths_are_powers_of_two_of_which_the_last_leaves_nothing_out(positions, widths):
    assert widths_up_to(positions) == widths
    assert pairs_within(positions, widths[-1]) == positions**2
    assert len(widths) == 1 or pairs_within(positions, widths[-2]) < positions**2


@pytest.mark.parametrize("positions", [1, 2, 7])
@pytest.mark.parametrize("width", [0, 1, 3, 6, 20])
def test_pairs_are_counted(positions, width):
    counted = sum(abs(i - j) <= width for i in range(positions) for j in range(positions))
    assert pairs_within(positions, width) == counted
