"""Attention with cached keys and values; tests/attention/test_invariants.py compares each core with the full pass."""

from dataclasses import replace

import pytest
import torch

from espnet_diverse.attention import EVERYTHING, build_attention
from espnet_diverse.scope import scope

SIZE, HEADS, TIME = 8, 2, 5


def test_keys_of_several_hypotheses_may_be_more_than_the_limit_of_positions():
    module, x = build_attention("softmax", SIZE, HEADS).eval(), torch.randn(1, TIME + 3, SIZE)
    module.core.supports = replace(EVERYTHING, max_length=TIME)
    q, cache = module.project_qkv(x)
    assert module.attend_cached(q, x, cache, None, length=TIME).shape == x.shape


@pytest.mark.parametrize("core", ["softmax", "sma", "sdma"])
def test_nothing_of_an_analysis_stays_after_a_cached_call(core):
    module, x = build_attention(core, SIZE, HEADS).eval(), torch.randn(2, TIME, SIZE)
    with scope(keep_attention=True):
        module(x, x, x, None)
    assert module.attn is not None
    q, cache = module.project_qkv(x)
    module.attend_cached(q, x, cache, None)
    assert module.attn is None
    assert not module.core.inspect().maps and not module.core.inspect().posteriors


def test_a_joint_projection_equals_three_separate_ones():
    module, x = build_attention("sdma", SIZE, HEADS).double().eval(), torch.randn(2, TIME, SIZE).double()
    parts = (module.linear_q, module.linear_k, module.linear_v)
    joint = torch.nn.Linear(SIZE, 3 * SIZE).double()
    joint.weight.data = torch.cat([part.weight for part in parts])
    joint.bias.data = torch.cat([part.bias for part in parts])
    (q, cache), (other_q, other_cache) = module.project_qkv(x), module.project_qkv(x, joint)
    for one, other in zip((q, *cache), (other_q, *other_cache), strict=True):
        torch.testing.assert_close(one, other)


def test_heads_are_masked_with_a_cache_too():
    module, x = build_attention("sdma", SIZE, HEADS).double().eval(), torch.randn(2, TIME, SIZE).double()
    module.head_mask = torch.tensor([True, False])
    q, cache = module.project_qkv(x)
    torch.testing.assert_close(module.attend_cached(q, x, cache, None), module(x, x, x, None))
    module.head_mask = torch.tensor([False, False])
    torch.testing.assert_close(module(x, x, x, None), module.linear_out.bias.expand_as(x))
    assert "head_mask" not in module.state_dict()
