"""Normalised queries and keys against cosines."""

import math

import pytest
import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.modifiers.query_key_norm import QueryKeyNormOptions, ScaledQueries, UnitKeys
from espnet_diverse.attention.pruning import prune_heads
from espnet_diverse.option_checks import OptionError

SIZE, HEADS, TIME = 8, 2, 5
MASK = torch.arange(TIME) < torch.tensor([5, 3]).view(2, 1, 1)


def attention(core="softmax", qk_norm=None, **options):
    torch.manual_seed(0)
    module = build_attention(core, SIZE, HEADS, qk_norm=qk_norm or {}, **options).double().eval()
    module.q_norm.scale.data += torch.tensor([1.0, -2.0]).view(2, 1, 1)
    return module


def tokens():
    return torch.randn(2, TIME, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.double)


def by_head(module, linear, x):
    return getattr(module, linear)(x).view(2, TIME, HEADS, -1).transpose(1, 2)


def test_weights_are_the_softmax_of_scaled_cosines():
    module, x = attention(), tokens()
    q, k, v = (by_head(module, linear, x) for linear in ("linear_q", "linear_k", "linear_v"))
    cosines = torch.cosine_similarity(q.unsqueeze(3), k.unsqueeze(2), dim=-1)
    logits = (module.q_norm.scale * cosines).masked_fill(~MASK.unsqueeze(1), -torch.inf)
    expected = module.linear_out((logits.softmax(-1) @ v).transpose(1, 2).reshape(2, TIME, SIZE))
    torch.testing.assert_close(module(x, x, x, MASK)[MASK[:, 0]], expected[MASK[:, 0]])


@pytest.mark.parametrize(("length", "start"), [(2, 1.0), (32, math.log2(992))])
def test_the_scale_begins_at_the_papers(length, start):
    module = build_attention("softmax", SIZE, HEADS, qk_norm={"length": length})
    assert module.q_norm.scale.flatten().tolist() == pytest.approx([start] * HEADS)
    module.q_norm.scale.data.zero_()
    module.q_norm.espnet_initialization_fn()
    assert module.q_norm.scale.flatten().tolist() == pytest.approx([start] * HEADS)


def test_the_length_of_projections_does_not_matter():
    module, x = attention(), tokens()
    before = module(x, x, x, MASK)
    for linear, factor in ((module.linear_q, 3.0), (module.linear_k, 0.2)):
        linear.weight.data *= factor
        linear.bias.data *= factor
    torch.testing.assert_close(module(x, x, x, MASK), before)


def test_gradients():
    module, x = attention(), tokens()
    assert torch.autograd.gradcheck(lambda x: module(x, x, x, MASK), (x.requires_grad_(),))
    module(x, x, x, MASK).square().sum().backward()
    assert (module.q_norm.scale.grad != 0).all()


def test_selected_heads_are_normalised_too():
    names = {"strategy": "static", "conditions": {"lang": ["ar", "de"]}, "default_condition": {"lang": "de"}}
    module, x = attention(selection=names), tokens()
    before = module(x, x, x, MASK)
    module.linear_k.weight.data *= 2
    module.linear_k.bias.data *= 2
    torch.testing.assert_close(module(x, x, x, MASK), before)
    prune_heads(module)
    torch.testing.assert_close(module(x, x, x, MASK), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_silence_has_ordinary_outputs_and_gradients(dtype):
    """A map without bias makes vectors of 0 of frames that SpecAugment has masked, and of slots of a memory."""
    x = torch.randn(1, 1, 5, 8, dtype=dtype)
    x[..., 2:4, :] = 0
    for norm in (UnitKeys(), ScaledQueries(1, QueryKeyNormOptions())):
        given = x.clone().requires_grad_()
        y = norm.to(dtype)(given)
        y.sum().backward()
        assert y.isfinite().all() and (y[..., 2:4, :] == 0).all()
        assert given.grad.isfinite().all() and given.grad.abs().max() < 1e4


def test_wrong_options_and_cores_are_refused():
    with pytest.raises(OptionError, match="length must be at least 2, but is 1"):
        attention(qk_norm={"length": 1})
    with pytest.raises(OptionError, match="unknown option 'lenght' of qk_norm; did you mean 'length'"):
        attention(qk_norm={"lenght": 9})
    with pytest.raises(ValueError, match="'lambda_attention' does not support dot products of whole queries and keys"):
        attention("lambda_attention")
