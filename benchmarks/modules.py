"""One self-attention module: ESPnet's, and ours with each core, on the same random input."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from espnet_diverse.attention import build_attention
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.scope import scope

HEADS, SIZE, CLUSTERS = 4, 256, 8
CORES: dict[str, dict] = {
    "softmax": {},
    "sma": {"n_clusters_z": CLUSTERS},
    "sdma": {"n_clusters_z": CLUSTERS, "n_clusters_q": CLUSTERS},
}
MODIFIERS: dict[str, dict] = {
    "mixed": {"head_patterns": ["global", {"window": 2}, "forward", "backward"]},
    "windows": {"head_patterns": ["global", {"window": 1}, {"window": 2}, {"window": 4}]},
    "neighbours": {"head_patterns": ["global", "global", "previous", "next"]},
    "qk_norm": {"qk_norm": {}},
    "rotary": {"position": "rotary"},
    "alibi": {"position": "alibi"},
    "dropped": {"drop_heads": {}},
    "relaxed": {"relaxed": {"gamma": 0.1}},
    "dex": {"dex": {"steps": 10_000}},
    "transformer_xl": {"position": "transformer_xl"},
}
"""Softmax with the fragments of conf/modifiers of these names."""
MORE: dict[str, dict] = {"gated": {}, "sanm": {}, "talking_heads": {}, "differential": {}, "value_residual": {}}
PARTS: dict[str, dict] = MODIFIERS | {
    "best_speech": {"head_patterns": ["global", {"window": 2}, {"window": 4}, {"window": 8}]},
    "strided": {"head_patterns": [{"window": 16}, {"strided": 16}]},
    "fixed": {"head_patterns": [{"block": 16}, {"ends": 16}]},
    "token": {"routing": {"shared": 1, "active": 2, "balance": 0.01}},
}
MORE |= {name: {"core": "softmax", **options} for name, options in PARTS.items()}
"""What is measured where it is asked for. A module of value residual on its own is a first layer, softmax."""
EVALUATION, FORWARD, FULL = "evaluation forward", "training forward", "training forward + backward"
MODES = (EVALUATION, FORWARD, FULL)


def contestants(
    mode: str, batch: int, time: int, device: torch.device, dtype: torch.dtype
) -> dict[str, Callable[[], None]]:
    """Self-attention in one of `MODES` over `batch` sequences of 0.8 `time` to `time` tokens.

    In training, all losses of the core are collected, and the input requires a gradient, as in a model.
    """
    torch.manual_seed(0)
    x = torch.randn(batch, time, SIZE, device=device, requires_grad=mode != EVALUATION)
    gradient = torch.randn_like(x)
    lengths = torch.linspace(time, 0.8 * time, batch).round().long().to(device)
    mask = lengths_to_mask(lengths, time).unsqueeze(1)
    calls = {}
    for name, module in _modules().items():
        module.to(device).train(mode != EVALUATION)
        calls[name] = _call(mode, module, (x, mask, gradient), dtype)
    return calls


def half_way(model: nn.Module) -> None:
    """Set gamma of every attention of `model` to 0.5, so that A and Abar both contribute; it starts at 0."""
    for name, buffer in model.named_buffers():
        if name.endswith("updates.count"):
            buffer.fill_(1386)


def _modules() -> dict[str, nn.Module]:
    # Imported here, so that `--help` does not wait for it.
    from espnet_diverse.upstream.layers import MultiHeadedAttention

    modules = {"espnet": MultiHeadedAttention(HEADS, SIZE, 0.0, use_sdpa=True)}
    modules["espnet_default"] = MultiHeadedAttention(HEADS, SIZE, 0.0)
    for name, options in (CORES | MORE).items():
        modules[name] = build_attention(**{"core": name, "size": SIZE, "heads": HEADS} | options)
    for module in modules.values():
        half_way(module)
    return modules


def _call(mode: str, module: nn.Module, data: tuple[Tensor, Tensor, Tensor], dtype: torch.dtype) -> Callable[[], None]:
    x, mask, gradient = data

    def call() -> None:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            if mode == EVALUATION:
                with torch.inference_mode():
                    module(x, x, x, mask)
                return
            with scope() as shared:
                y = module(x, x, x, mask)
            losses = [shared.total_loss()] if shared.losses() else []
        if mode == FULL:
            torch.autograd.backward([y, *losses], [gradient.to(y.dtype), *(None for _ in losses)])
            x.grad = None
            module.zero_grad()

    return call
