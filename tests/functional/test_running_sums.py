"""Running sums against loops in double precision, in one step and in several, and what queries read of them."""

import pytest
import torch

from espnet_diverse.functional.running_sums import Sums, accumulate

B, H, N, D, R, P = 2, 2, 7, 3, 4, 3
NO_KEYS = 2  # the last prefix of the second sequence has none


def given(own_factors):
    torch.manual_seed(0)
    features = None if own_factors else torch.randn(B, H, N, R).double()
    v, s = torch.randn(B, H, N, D).double(), 3 * torch.randn(B, H, N, R if own_factors else 1).double()
    seen = torch.rand(B, P, N) < 0.6
    seen[:, :, 0], seen[1, NO_KEYS] = True, False
    return features, v, s, seen


def looped(features, v, s, seen):
    """sum_j exp(s_j) phi_j [v_j, 1]^T of each prefix."""
    state = torch.zeros(B, H, P, R, D + 1).double()
    for b in range(B):
        for h in range(H):
            for p in range(P):
                for j in seen[b, p].nonzero()[:, 0].tolist():
                    phi = s[b, h, j].exp() * (1 if features is None else features[b, h, j])
                    state[b, h, p] += torch.outer(phi, torch.cat([v[b, h, j], torch.ones(1)]))
    return state


def plain(sums):
    return sums.state * sums.top.exp().unsqueeze(-1)


@pytest.mark.parametrize("own_factors", [True, False])
def test_sums_equal_loops(own_factors):
    features, v, s, seen = given(own_factors)
    sums = accumulate(features, v, s, seen)
    torch.testing.assert_close(plain(sums), looped(features, v, s, seen))
    assert torch.equal(sums.keys, seen.sum(-1)) and not sums.state[1, :, NO_KEYS].any()


@pytest.mark.parametrize("own_factors", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_sums_in_two_steps_match_all_keys(own_factors, shared):
    features, v, s, seen = given(own_factors)
    old, new, of = slice(4), slice(4, N), torch.tensor([[2, 0, 2], [0, 2, 1]])

    def part(keys, which):
        return accumulate(None if features is None else features[:, :, keys], v[:, :, keys], s[:, :, keys], which)

    first = part(old, seen[:, :1, old] if shared else seen[..., old])._replace(of=None if shared else of)
    both = accumulate(
        None if features is None else features[:, :, new], v[:, :, new], s[:, :, new], seen[..., new], first
    )
    before = (
        seen[:, :1, old].expand(-1, P, -1) if shared else seen[..., old].gather(1, of.unsqueeze(-1).expand(-1, -1, 4))
    )
    expected = torch.cat([before, seen[..., new]], -1)
    torch.testing.assert_close(plain(both), looped(features, v, s, expected))
    assert torch.equal(both.keys, expected.sum(-1))


def test_queries_read_the_prefix_of_their_hypothesis():
    features, v, s, seen = given(False)
    of, q = torch.tensor([[2, 0, 2, 1, 1], [0, 2, 1, 1, 0]]), torch.randn(B, H, 5, R).double()
    sums = accumulate(features, v, s, seen)._replace(of=of)
    assert isinstance(sums, Sums)
    for kept, rows in ((sums, [0, 1]), (sums.keep(torch.tensor([1])), [1])):
        for index, b in enumerate(rows):
            for w in range(5):
                state = sums.state[b, :, of[b, w]]
                expected = torch.einsum("hr,hrd->hd", q[b, :, w], state)
                torch.testing.assert_close(kept.read(q[rows])[index, :, w], expected)
    parents = torch.tensor([[4, 3, 0], [1, 1, 0]])
    assert torch.equal(sums.extend(parents).of, of.gather(1, parents))
    assert torch.equal(sums.chosen(sums.top)[1, :, 3], sums.top[1, :, 1])


def test_factors_out_of_the_range_of_floating_point_stay_finite():
    features, v, s, seen = (x if x is None else x.float() if x.is_floating_point() else x for x in given(False))
    sums = accumulate(features, v, s * 1000, seen)
    assert torch.isfinite(sums.state).all() and sums.state.abs().amax() < 100
