"""Cores and variants of them, with the options that tests of all cores build them with."""

import pytest
import torch

from espnet_diverse.attention import CORES, build_attention

SIZE, HEADS = 16, 4
#: Every sample has the default condition here; batches of mixed conditions are in test_head_selection.py.
GROUP = {"strategy": "group", "pool": 8, "conditions": {"lang": ["ar", "de"]}, "default_condition": {"lang": "de"}}
VARIANTS = {
    "sma:paper": {"preset": "paper"},
    "sma:released": {"preset": "released"},
    "sma:annealed": {"scale_s": "anneal", "noise_order": "before"},
    "sma:learned": {"approx_var": "learned", "dv_form": "balanced"},
    "sdma:paper": {"preset": "paper"},
    "sdma:released": {"preset": "released"},
    "sdma:released-learned": {"preset": "released", "approx_var": "learned", "scale_s": 10},
    "sdma:annealed": {"scale_s": "anneal", "noise_order": "before", "centroid_learning_rate_scale": 5.0},
    "sdma:learned": {"approx_var": "learned"},
    "sdma:tempered": {"mi_density": "tempered", "dv_form": "balanced"},
    "softmax:group": {"selection": GROUP},
    "softmax:subset": {"selection": GROUP | {"strategy": "subset", "kl_weight": 1.0}},
    "softmax:candidates": {"selection": GROUP | {"all_candidates": True}},
    "sdma:candidates": {"selection": GROUP | {"all_candidates": True}},
    "softmax:static": {"selection": GROUP | {"strategy": "static"}},
    "softmax:qk_norm": {"qk_norm": {}},
    "softmax:mixed": {"head_patterns": ["global", {"window": 1}, "previous", "start"]},
    "softmax:directed": {"head_patterns": ["forward", "backward", "next", "end"]},
    "softmax:factorised": {"head_patterns": [{"window": 2}, {"strided": 3}, {"block": 3}, {"ends": 2}]},
    "softmax:mixed-group": {
        "head_patterns": [*["global"] * 4, *[{"window": 1}] * 4],
        "selection": GROUP,
        "qk_norm": {},
    },
    "softmax:drop_heads": {"drop_heads": {"rate": 0.5}},
    "softmax:relaxed": {"relaxed": {}},
    "softmax:routed": {"routing": {}},
    "sdma:routed": {"routing": {"shared": 0, "active": 3}, "selection": GROUP, "drop_heads": {}},
    "softmax:dex": {"dex": {"steps": 4000}},
    "sdma:dex": {"dex": {"steps": 4000}, "selection": GROUP, "relaxed": {}},
    "softmax:rotary": {"position": "rotary"},
    "softmax:alibi": {"position": "alibi", "head_patterns": ["global", {"window": 2}]},
    "softmax:transformer_xl": {"position": "transformer_xl", "head_patterns": ["global", {"window": 2}]},
    "sma:transformer_xl": {"position": "transformer_xl", "qk_norm": {}},
    "sdma:rotary": {"position": "rotary", "qk_norm": {}},
    "window:rotary": {"window": 1, "position": "rotary"},
    "sma:mixed": {"head_patterns": ["global", {"window": 1}], "qk_norm": {}, "relaxed": {}},
    "sdma:mixed": {"head_patterns": ["global", {"window": 1}], "drop_heads": {}},
    "window:mixed": {"window": 2, "head_patterns": ["global", "previous"], "qk_norm": {}},
    "bigbird:mixed": {"block_size": 1, "global_blocks": 1, "random_blocks": 1, "head_patterns": ["global", "start"]},
    "sma:group": {"selection": GROUP},
    "sdma:subset": {"selection": GROUP | {"strategy": "subset", "subset_order": "score"}},
    "gated:head": {"per": "head", "selection": GROUP},
    "sanm:narrow": {"kernel_size": 2, "residual": False},
    "sanm:group": {"selection": GROUP},
    "talking_heads:drawn": {"start": "drawn"},
    "talking_heads:before": {"start": "drawn", "after": False, "selection": GROUP},
    "talking_heads:after": {"start": "drawn", "before": False},
    "gated:mixed": {"head_patterns": ["global", {"window": 1}], "qk_norm": {}, "position": "rotary"},
    "sanm:mixed": {"head_patterns": ["forward", "next"], "position": "alibi"},
    "talking_heads:mixed": {"start": "drawn", "head_patterns": ["previous", {"window": 1}], "position": "alibi"},
    "differential:mixed": {"head_patterns": ["global", "previous"]},
    "value_residual:mixed": {"head_patterns": ["global", "end"]},
    "differential:group": {"lambda_init": 0.2, "selection": GROUP},
    "value_residual:group": {"learned": True, "selection": GROUP},
    "linformer:group": {"compressed_length": 3, "max_length": 40, "selection": GROUP},
    "linformer:qk_norm": {"compressed_length": 3, "max_length": 40, "qk_norm": {}},
    "random_features:qk_norm": {"qk_norm": {}},
    "linformer:shared": {"compressed_length": 3, "max_length": 40, "shared": True},
    "luna:untied": {"length": 3, "tied": False},
    "window:narrow": {"window": 1},
    "window:dilated": {"window": 1, "dilation": 2},
    "window:global": {"window": 1, "global_tokens": 2},
    "window:chosen": {"window": 1, "global_tokens": [0, 4]},
    "window:dilated-global": {"window": 1, "dilation": 2, "global_tokens": 1},
    "window:group": {"window": 1, "selection": GROUP},
    "bigbird:small": {"block_size": 1, "window_blocks": 1, "global_blocks": 1, "random_blocks": 1},
    "bigbird:pairs": {"block_size": 2, "window_blocks": 0, "global_blocks": 0, "random_blocks": 1, "selection": GROUP},
    "pattern_gates:narrow": {"patterns": ["previous", {"window": 1}, "start"], "tau_steps": 4000, "qk_norm": {}},
    "sinkhorn:small": {"block_size": 2},
    "sinkhorn:group": {"block_size": 3, "iterations": 2, "selection": GROUP},
    "reformer:small": {"chunk_size": 2, "half_buckets": 2},
    "reformer:group": {"chunk_size": 3, "tied": False, "selection": GROUP},
    "reformer:tied-group": {"chunk_size": 3, "half_buckets": 2, "selection": GROUP},
    "lambda_attention:group": {"selection": GROUP},
    "random_features:trigonometric": {"feature": "trigonometric", "n_features": 64},
    "random_features:redrawn": {"redraw_interval": 1, "orthogonal": False, "selection": GROUP},
}
ONE_KEY = {"head_patterns": ["previous", "start"]}
VARIANTS |= {f"{name}:one_key": ONE_KEY for name, core in CORES.items() if core.supports.head_patterns}
VARIANTS |= {
    "softmax:one_key-group": ONE_KEY | {"qk_norm": {}, "selection": GROUP},
    "softmax:one_key-ends": {"head_patterns": ["previous", "next", "start", "end"]},
}


def softmax_equivalent(core):
    """Options at which a core, or a variant of it, is softmax attention, or None."""
    parts = {"qk_norm", "head_patterns", "position", "drop_heads", "relaxed", "routing", "dex"}
    changed = parts & VARIANTS.get(core, {}).keys()
    return None if changed else CORES[core.split(":")[0]].SOFTMAX_EQUIVALENT


def fits(core, uses):
    """Whether a core, or a variant of it, declares all of some uses."""
    patterns, position = (VARIANTS.get(core, {}).get(part, ()) for part in ("head_patterns", "position"))
    refused = position and "cross_attention" in uses
    refused = refused or ("next" in patterns and "causal" in uses) or (position and "relative_position" in uses)
    return not refused and CORES[core.split(":")[0]].supports.missing(uses) is None


def supporting(*uses):
    """Parametrise `core` by the cores that declare all of `uses`, and their variants."""
    able = [name for name in [*CORES, *VARIANTS] if fits(name, uses)]
    return pytest.mark.parametrize("core", able)


def supporting_by_position(*uses):
    """The same, and `relative`: whether the core has relative position."""
    able = [name for name in [*CORES, *VARIANTS] if fits(name, uses)]
    cases = [(name, False) for name in able]
    cases += [(name, True) for name in able if fits(name, ["relative_position"])]
    return pytest.mark.parametrize(
        ("core", "relative"), cases, ids=[f"{name}-{'relative' if r else 'absolute'}" for name, r in cases]
    )


def build(core, **options):
    """An attention in double precision: a core, or one of its variants, with more options."""
    return build_attention(core.split(":")[0], SIZE, HEADS, **(VARIANTS.get(core, {}) | options)).double()


def make(core, updates=2000.0, **options):
    """The same in evaluation mode, with a mixing rate that is not 0."""
    torch.manual_seed(3)
    module = build(core, **options).eval()
    for name, parameter in module.named_parameters():
        if "mixture" in name or "changes" in name:
            parameter.data += 0.5 * torch.randn_like(parameter)
    for name, buffer in module.named_buffers():
        if name.endswith("updates.count"):
            buffer.fill_(updates)
    return module


def inputs(batch=2, time=7, relative=False):
    torch.manual_seed(5)
    x = torch.randn(batch, time, SIZE, dtype=torch.double)
    return x, [torch.randn(1, 2 * time - 1, SIZE, dtype=torch.double)] if relative else []
