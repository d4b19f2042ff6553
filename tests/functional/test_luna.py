"""Luna's equations: naive loops, finite differences, and costs that grow with the length."""

import math

import numpy as np
import pytest
import torch
from references import luna as oracle
from references.sizes import growth

from espnet_diverse.functional import luna
from espnet_diverse.functional.masks import causal

B, H, T, D, ROWS = 2, 2, 7, 3, 4
VALID = torch.arange(T) < torch.tensor([[T], [4]])


def exact(actual, expected):
    expected = torch.from_numpy(expected) if isinstance(expected, np.ndarray) else expected
    torch.testing.assert_close(actual.detach(), expected.detach(), rtol=1e-10, atol=1e-10)


def parts(draw, time=T):
    """q, k, v and w of the causal form."""
    q, k, v = (draw.normal(B, H, time, D) for _ in range(3))
    return q, k, v, luna.pattern(draw.normal(1, H, ROWS, D), draw.normal(B, H, time, D))


def test_packing_in_parts_equals_packing_the_whole(draw):
    p, (k, v) = draw.normal(1, 3, ROWS, 2), draw.normal(2, B, 3, T, 2)
    k = 100 * k  # the maxima of the parts differ by more than exp can hold
    valid = torch.stack([VALID[0], torch.zeros(T, dtype=torch.bool)])
    for seen in (None, VALID[:, None, None], valid[:, None, None]):
        parts = [slice(0, 3), slice(3, 6), slice(6, T)]
        given = ((k[:, :, part], v[:, :, part], None if seen is None else seen[..., part]) for part in parts)
        packed, count = luna.pack(p, given)
        for b in range(B):
            own = slice(T) if seen is None else seen[b, 0, 0]
            scores = torch.einsum("hld,htd->hlt", p[0], k[b][:, own]) / math.sqrt(2)
            expected = scores.softmax(-1) @ v[b][:, own]
            exact(packed[b], expected.transpose(0, 1).flatten(1))
            assert int(count.expand(B, 1, 1, 1)[b]) == expected.new_ones(T)[own].sum()


@pytest.mark.parametrize("block", [1, 3, T, 20])
@pytest.mark.parametrize("valid", [None, VALID], ids=["all", "padding"])
def test_the_causal_form_equals_loops_whatever_the_block(draw, block, valid):
    given = parts(draw)
    y = luna.causal_attention(*given, None if valid is None else valid.unsqueeze(1), block=block)
    for b in range(B):
        seen = causal(T).numpy() if valid is None else (causal(T) & valid[b]).numpy()
        for h in range(H):
            exact(y[b, h], oracle.causal(*(part[b, h].detach().numpy() for part in given), seen))


def test_a_few_queries_over_cached_keys_equal_the_full_pass(draw):
    """Incremental = parallel: the last query, several, and queries whose keys are in another order."""
    q, k, v, w = parts(draw)
    full = luna.causal_attention(q, k, v, w)
    for t in range(T):
        step = luna.masked_attention(q[:, :, t : t + 1], *(part[:, :, : t + 1] for part in (k, v, w)))
        exact(step, full[:, :, t : t + 1])
    exact(luna.masked_attention(q[:, :, 3:], k, v, w, causal(T)[3:]), full[:, :, 3:])
    order = torch.tensor([5, 0, 3, 6, 1, 4, 2])  # keys in another order, as in a tree of hypotheses
    exact(luna.masked_attention(q, *(part[:, :, order] for part in (k, v, w)), causal(T)[:, order]), full)


def test_a_query_without_keys_gets_zero_and_finite_gradients(draw):
    given = parts(draw)
    for y in (
        luna.causal_attention(*given, torch.zeros(B, 1, T, dtype=torch.bool)),
        luna.masked_attention(*given, torch.zeros(B, 1, T, T, dtype=torch.bool)),
    ):
        assert (y == 0).all()
        assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(y.sum(), given[:3]))


def test_dropout_leaves_rows_of_p_out(draw):
    q, k, v, w = parts(draw)
    given = q, k, torch.ones_like(v), w  # a row of P then adds one number to all of y
    torch.manual_seed(0)
    dropped = luna.causal_attention(*given, dropout=0.9)
    assert not torch.allclose(dropped, luna.causal_attention(*given))
    exact(dropped, dropped[..., :1].expand_as(dropped))


def test_gradcheck_of_the_causal_form(draw):
    given, mask = [part[:1, :1].detach().requires_grad_() for part in parts(draw)], causal(T).roll(1, 0)
    assert torch.autograd.gradcheck(lambda *given: luna.causal_attention(*given, VALID[1:], block=3), given)
    assert torch.autograd.gradcheck(lambda *given: luna.masked_attention(*given, mask), given)


def test_the_causal_form_grows_linearly(draw):
    """The largest tensor is the scores of a block: the state of every position is never stored."""
    given = {time: parts(draw, time) for time in (512, 1024)}
    operations, elements, largest = growth(lambda time: luna.causal_attention(*given[time]))
    assert operations < 2.1 and elements < 2.1 and largest == 1
