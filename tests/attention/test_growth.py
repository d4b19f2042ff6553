"""Every core that declares `linear` takes time and memory in proportion to the length, with gradients."""

import pytest
import torch
from references.sizes import growth

from espnet_diverse.attention import CORES, build_attention

SIZE, HEADS, TIME = 8, 2, 512
VARIANTS = {
    "linformer": {"max_length": 2 * TIME, "compressed_length": 8},
    "luna": {"length": 4},
    "luna:untied": {"length": 4, "tied": False},
    "window": {"window": 2},
    "window:dilated-global": {"window": 2, "dilation": 2, "global_tokens": 2},
    "window:chosen": {"window": 2, "global_tokens": [0, 7]},
    "bigbird": {"block_size": 4},
    "random_features": {"n_features": 8},
    "random_features:trigonometric": {"n_features": 8, "feature": "trigonometric"},
}
LINEAR = [name for name in dict.fromkeys([*CORES, *VARIANTS]) if CORES[name.split(":")[0]].linear]


def of(core):
    return CORES[core.split(":")[0]].supports


def attend(core, **options):
    """Self-attention as a function of the length; its mask is there already, and does not count."""
    torch.manual_seed(0)
    module = build_attention(core.split(":")[0], SIZE, HEADS, **VARIANTS.get(core, {}), **options)
    is_causal = options.get("causal", False)
    masks = {t: torch.ones(1, t, t, dtype=torch.bool).tril() if is_causal else None for t in (TIME, 2 * TIME)}

    def compute(time):
        x = torch.randn(1, time, SIZE, requires_grad=True)
        position = [torch.randn(1, 2 * time - 1, SIZE)] if module.relative else []
        return module(x, x, x, *position, masks[time])

    return compute


@pytest.mark.parametrize("core", LINEAR)
def test_self_attention_grows_linearly(core):
    assert max(growth(attend(core), TIME)) < 2.1


@pytest.mark.parametrize("core", [name for name in LINEAR if of(name).causal])
def test_causal_attention_grows_linearly(core):
    assert max(growth(attend(core, causal=True), TIME)) < 2.1


@pytest.mark.parametrize("core", [name for name in LINEAR if of(name).relative_position])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_attention_with_relative_position_grows_linearly(core, causal):
    assert max(growth(attend(core, causal=causal, relative=True), TIME)) < 2.1


def test_softmax_attention_does_not():
    assert max(growth(attend("softmax"), TIME)) > 3.9
