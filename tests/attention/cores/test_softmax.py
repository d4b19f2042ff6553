"""The softmax core against loops in double precision, and its gradients against differences."""

import pytest
import torch
import torch.nn.functional as F
from references import sdma as oracle
from references.golden import golden

from espnet_diverse.attention import Heads, build_attention
from espnet_diverse.attention.cores.softmax import Softmax, masked_softmax, softmax_attention
from espnet_diverse.scope import scope

B, H, TQ, TK, D = 2, 2, 4, 5, 3
MASKS = {
    "none": None,
    "padding": torch.arange(TK) < torch.tensor([5, 2]).view(B, 1, 1, 1),
    "causal": torch.ones(TQ, TK, dtype=torch.bool).tril(1).view(1, 1, TQ, TK),
    "a row without keys": (torch.arange(TQ) != 1).view(1, 1, TQ, 1).expand(B, 1, TQ, TK),
}
each_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def heads(mask=None, position=False, **options):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.double).requires_grad_()

    q, k, v = draw(B, H, TQ, D), draw(B, H, TK, D), draw(B, H, TK, D)
    query, key = draw(B, TQ, H * D), draw(B, TK, H * D)
    bias = draw(B, H, TQ, TK) if position else None
    return Heads(q, k, v, query, key, q, mask=mask, position=bias, **options)


@each_mask
@pytest.mark.parametrize("position", [False, True], ids=["absolute", "relative"])
def test_equals_loops(mask, position):
    core, given = Softmax(H * D, H), heads(mask, position, need_weights=True)
    context, weights = core(given)
    seen = torch.ones(B, H, TQ, TK, dtype=torch.bool) if mask is None else mask.expand(B, H, TQ, TK)
    for b in range(B):
        for h in range(H):
            q, k, v = (x[b, h].detach() for x in (given.q, given.k, given.v))
            bias = given.position[b, h].detach() / D**0.5 if position else None
            expected = torch.tensor(oracle.attention(q.numpy(), k.numpy(), seen[b, h].numpy(), bias=bias))
            torch.testing.assert_close(weights[b, h], expected)
            torch.testing.assert_close(context[b, h], expected @ v)


@each_mask
@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "weights"])
def test_gradcheck(mask, need_weights):
    given = heads(mask, position=True)

    def context(q, k, v, position):
        return Softmax(H * D, H)(
            Heads(q, k, v, given.query, given.key, q, mask=mask, position=position, need_weights=need_weights)
        )[0]

    assert torch.autograd.gradcheck(context, (given.q, given.k, given.v, given.position))


def test_weights_are_returned_only_on_demand():
    assert Softmax(H * D, H)(heads())[1] is None
    assert Softmax(H * D, H)(heads(need_weights=True))[1].shape == (B, H, TQ, TK)


def test_dropout_acts_on_the_weights():
    torch.manual_seed(0)
    core = Softmax(H * D, H)
    for need_weights in (False, True):
        dropped = core(heads(dropout=0.9, need_weights=need_weights))[0]
        assert not torch.allclose(dropped, core(heads(need_weights=need_weights))[0])


def test_masked_softmax_has_espnets_values():
    scores = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mask = torch.tensor([[True, True, False], [False, False, False]])
    weights = masked_softmax(scores, mask)
    assert torch.equal(weights[0, :2], torch.softmax(scores[0, :2], -1)) and weights[0, 2] == 0
    assert torch.equal(weights[1], torch.zeros(3))
    assert torch.equal(masked_softmax(scores, None), torch.softmax(scores, -1))


SPARSE = golden("sparse_masks")


@pytest.mark.parametrize("name", sorted(name for name, array in SPARSE.items() if array.dtype == torch.bool))
@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "weights"])
def test_golden_attention_under_a_sparse_mask(name, need_weights):
    q, k, v = (SPARSE[x][None, None] for x in "qkv")
    context, _ = softmax_attention(Heads(q, k, v, q[0], k[0], q, mask=SPARSE[name], need_weights=need_weights))
    torch.testing.assert_close(context[0, 0], SPARSE[f"out_{name}"], atol=1e-10, rtol=1e-10)


def test_layers_of_a_pass_share_one_mask_of_logits(monkeypatch):
    given = []
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *args: given.append(args[3]) or fused(*args))
    module, x = build_attention("softmax", 8, 2, head_patterns=["global", {"window": 1}]), torch.randn(2, 5, 8)
    mask = torch.arange(5) < torch.tensor([[[5]], [[3]]])
    with scope():
        first, second = module(x, x, x, mask), module(x, x, x, mask)
    assert given[0] is given[1] and given[0].dtype == torch.float32
    assert torch.equal(first, second) and torch.equal(first, module(x, x, x, mask))
