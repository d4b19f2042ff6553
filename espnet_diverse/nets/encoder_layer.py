"""ESPnet's encoder layers for long inputs: without gradients, all but the attention is computed part by part.

ESPnet's transformer layer holds five sequences of the length of its input at a time, and the inner layer of its
feed-forward network, which is several times as wide. Here a layer holds three: its input, the input of the attention,
and its output. An output of the feed-forward network depends only on its own frame, so the result is the same.
"""

from typing import Any

import torch
from torch import Tensor, nn

from espnet_diverse.attention.parts import by_parts, is_long
from espnet_diverse.upstream.layers import EncoderLayer, PositionwiseFeedForward


class PartwiseFeedForward(PositionwiseFeedForward):
    """ESPnet's `PositionwiseFeedForward`, which computes long inputs part by part where there are no gradients.

    Args:
        layer: ESPnet's module, whose parts it takes over.
    """

    def __init__(self, layer: PositionwiseFeedForward):
        _take_over(self, layer)

    def forward(self, x: Tensor) -> Tensor:
        """Compute x (B, T, M) -> (B, T, M)."""
        forward = super().forward
        if torch.is_grad_enabled() or not is_long(x.size(1)):
            return forward(x)
        return by_parts(lambda part: forward(x[:, part]), x.size(1))


class PartwiseLayer(EncoderLayer):
    """ESPnet's transformer `EncoderLayer`, which computes long inputs part by part where there are no gradients.

    Args:
        layer: ESPnet's layer, whose parts it takes over.
    """

    feed_forward: nn.Module

    def __init__(self, layer: EncoderLayer):
        _take_over(self, layer)

    def forward(self, x: Tensor, mask: Any, cache: Tensor | None = None) -> tuple[Tensor, Any]:
        """Compute ESPnet's result: x (B, T, M), mask (B, 1, T), [cache (B, T - 1, M)] -> (B, T, M), mask."""
        time = x.size(1)
        if self.training or torch.is_grad_enabled() or cache is not None or not is_long(time):
            return super().forward(x, mask, cache)
        normed = by_parts(lambda part: self.norm1(x[:, part]), time) if self.normalize_before else x
        attended = self.self_attn(normed, normed, normed, mask)
        del normed
        return by_parts(lambda part: self._after_attention(x[:, part], attended[:, part]), time), mask

    def _after_attention(self, x: Tensor, attended: Tensor) -> Tensor:
        """Compute what follows the attention, in evaluation, from the layer's input x (B, T, M) and its output."""
        if self.concat_after:
            normed = self.norm1(x) if self.normalize_before else x
            attended = self.concat_linear(torch.cat([normed, attended], dim=-1))
        if self.normalize_before:
            x = x + attended
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + attended)
        return self.norm2(x + self.feed_forward(x))


def replace_layers(layers: nn.Sequential) -> None:
    """Replace ESPnet's transformer layers and feed-forward layers by those above, with their weights and names.

    A layer with convolutions instead of its feed-forward stays as it is.
    """
    for number, layer in enumerate(layers):
        _replace_feed_forward(layer)
        if type(layer) is EncoderLayer and isinstance(layer.feed_forward, PartwiseFeedForward):
            layers[number] = PartwiseLayer(layer)


def _replace_feed_forward(layer: nn.Module) -> None:
    for name, module in layer.named_children():
        if type(module) is PositionwiseFeedForward:
            setattr(layer, name, PartwiseFeedForward(module))


def _take_over(module: nn.Module, original: nn.Module) -> None:
    """Give a new module all attributes of another of its base class."""
    nn.Module.__init__(module)
    vars(module).update(vars(original))
