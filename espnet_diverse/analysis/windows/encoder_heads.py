"""The self-attention of a trained encoder whose heads get windows."""

import logging
from collections.abc import Sequence

from numpy.typing import NDArray
from torch import nn

from espnet_diverse.analysis.collect import attentions
from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.attention.head_patterns import HeadPattern, HeadPatterns
from espnet_diverse.errors import ModelError
from espnet_diverse.upstream.layers import LegacyRelPositionalEncoding

log = logging.getLogger(__name__)


def encoder_heads(model: nn.Module) -> list[MultiHeadAttention]:
    """Return the self-attention of each encoder layer, without that of ESPnet's own classes."""
    return [layer for layer in attentions(model).get("encoder", []) if isinstance(layer, MultiHeadAttention)]


def check_heads(model: nn.Module) -> None:
    """Refuse a model whose encoder heads cannot get windows.

    Raises:
        ModelError: The encoder has no self-attention of this package, or one that is not softmax over all positions.
    """
    layers = encoder_heads(model)
    if not layers:
        raise ModelError("the encoder has no multi-head self-attention, whose heads could get windows")
    for number, layer in enumerate(layers, 1):
        features = {"head_patterns": layer.patterns is not None, "head selection": layer.selection is not None}
        features[f"attention {layer.core.name}"] = not layer.core.by_pattern
        if has := next((name for name, present in features.items() if present), None):
            raise ModelError(f"layer {number} of the encoder has {has}; windows are for softmax over all positions")
    if any(isinstance(module, LegacyRelPositionalEncoding) for module in model.modules()):
        log.warning("rel_pos_type is legacy: windows save no time, because its term of the logits needs all pairs")


def set_windows(layers: Sequence[MultiHeadAttention], widths: NDArray | None) -> None:
    """Give each head of N layers a window, widths (N, H) in positions on each side, or with None all positions."""
    for number, layer in enumerate(layers):
        windows = None if widths is None else tuple(HeadPattern("window", int(width)) for width in widths[number])
        layer.patterns = None if windows is None else HeadPatterns(windows)


def as_option(widths: NDArray) -> list[list[dict[str, int]]]:
    """Return windows (N, H) as they are written in a configuration, as `head_patterns` of each layer."""
    return [[{"window": int(width)} for width in layer] for layer in widths]
