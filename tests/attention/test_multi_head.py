"""Parts that all cores share: projections, relative position, and when weights are kept."""

import copy
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from espnet_diverse.attention import EVERYTHING, Core, MultiHeadAttention, Supports, build_attention
from espnet_diverse.scope import scope

SIZE, HEADS, WIDTH, TIME = 8, 2, 4, 5


class Asked(Core):
    """A core that records if it was asked for weights."""

    def forward(self, heads):
        self.asked = heads.need_weights
        return heads.q, heads.scores() if heads.need_weights else None


def make(supports=EVERYTHING):
    core = Asked(SIZE, HEADS)
    core.supports = supports
    return MultiHeadAttention(SIZE, HEADS, core).eval()


def test_the_mask_may_be_left_out():
    module, x = build_attention("softmax", SIZE, HEADS).eval(), torch.randn(2, TIME, SIZE)
    assert torch.equal(module(x, x, x), module(x, x, x, None))


def test_weights_are_kept_in_a_scope_or_under_a_hook():
    module, x = make(), torch.randn(2, TIME, SIZE)
    module(x, x, x, None)
    assert not module.core.asked and module.attn is None
    with scope(keep_attention=True):
        module(x, x, x, None)
    assert module.core.asked and module.attn.shape == (2, HEADS, TIME, TIME)
    seen = []
    hook = module.register_forward_hook(lambda attention, *_: seen.append(attention.attn))
    module(x, x, x, None)
    hook.remove()
    assert torch.equal(seen[0], module.attn)


def test_a_core_without_explicit_weights_is_never_asked_for_them():
    module, x = make(Supports()), torch.randn(2, TIME, SIZE)
    module.register_forward_hook(lambda *_: None)
    with scope(keep_attention=True):
        module(x, x, x, None)
    assert not module.core.asked and module.attn is None


def test_length_is_limited_in_the_full_pass_and_with_a_cache():
    module, x = make(replace(EVERYTHING, max_length=TIME)), torch.randn(1, TIME + 1, SIZE)
    short, name = x[:, :TIME], r"attention 'Asked' supports at most 5 positions, and 6 are needed"
    module(short, short, short, None)
    q, cache = module.project_qkv(x)
    for too_long in (
        lambda: module(x, x, x, None),
        lambda: module(short, x, x, None),
        lambda: module.attend_cached(q, x, cache, None),
        lambda: module.attend_cached(q[:, :, :1], x[:, :1], cache, None, length=TIME + 1),
    ):
        with pytest.raises(ValueError, match=name):
            too_long()


@pytest.mark.parametrize("mask", [None, torch.ones(2, 1, 5, dtype=torch.bool)], ids=["none", "padding"])
def test_causal_attention_without_a_causal_mask_is_refused(mask):
    module, x = build_attention("sma", 16, 2, causal=True), torch.randn(2, 5, 16)
    with pytest.raises(
        ValueError, match=r"causal attention 'sma' needs a mask \(B, T, T\) that excludes later positions"
    ):
        module(x, x, x, mask)
    assert module(x[:, :1], x[:, :1], x[:, :1], None).shape == (2, 1, 16)  # the first step of decoding


SELECTION = {"strategy": "group", "pool": 8, "conditions": {"lang": ["de", "fr"]}}


class Net(torch.nn.Module):
    """Attention between two linear maps."""

    def __init__(self, **options):
        super().__init__()
        self.before, self.after = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)
        self.attention = build_attention(size=16, heads=4, dropout=0.1, **options)

    def forward(self, x):
        x = self.before(x).relu()
        return self.after(self.attention(x, x, x, torch.ones(2, 1, 9, dtype=torch.bool))).relu()


def trained(compiled, options):
    """Loss, gradients and number of updates after two optimizer steps."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = Net(**options).train()
    call = compiled(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(2, 9, 16)
    for step in range(3):
        torch.manual_seed(step)
        with scope({"lang": torch.tensor([0, 1])}) as shared:
            loss = call(x).square().sum() + shared.total_loss()
        optimizer.zero_grad()
        loss.backward()
        if step < 2:
            optimizer.step()
    counts = [buffer for name, buffer in net.named_buffers() if name.endswith("updates.count")]
    return [loss.detach(), *(parameter.grad for parameter in net.parameters()), *counts]


def by_module(net):
    net.attention.compile(backend="aot_eager")
    return net


@pytest.mark.parametrize("compiled", [lambda net: torch.compile(net, backend="aot_eager"), by_module])
@pytest.mark.parametrize("options", [{"core": "sdma"}, {"core": "softmax", "selection": SELECTION}])
def test_compiled_training_matches_eager_training(options, compiled):
    found, expected = trained(compiled, options), trained(lambda net: net, options)
    assert len(found) == len(expected) and float(found[-1]) == 2
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_compiler_is_not_imported_for_nothing():
    code = "import sys, espnet_diverse.attention; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_module_is_copied_after_a_pass_that_keeps_its_weights():
    module, x = build_attention("softmax", SIZE, HEADS), torch.randn(2, TIME, SIZE, requires_grad=True)
    with scope(keep_attention=True):
        module(x, x, x, None)
    assert torch.equal(copy.deepcopy(module).attn, module.attn) and not module.attn.requires_grad
