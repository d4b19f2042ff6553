"""Nets whose attention adds position itself, see `attention/modifiers/position.py`: they add none to inputs."""

from typing import Any

from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.attention.modifiers.position import POSITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.upstream.layers import (
    ConvolutionalPositionalEmbedding,
    PositionalEncoding,
    ScaledPositionalEncoding,
    StreamPositionalEncoding,
)


class NoPosition(PositionalEncoding):
    """ESPnet's `PositionalEncoding` with zeros for positions: it scales its input and applies dropout.

    Args:
        encoding: The module that it replaces.
    """

    def __init__(self, encoding: PositionalEncoding):
        super().__init__(encoding.d_model, encoding.dropout.p, max_len=1)

    def extend_pe(self, x: Tensor) -> None:
        """Provide the positions of x (B, T, ...): zeros (1, T, M)."""
        self.pe = x.new_zeros(1, 1, 1).expand(1, x.size(1), self.d_model)


def remove_absolute_position(net: nn.Module, attention: dict[str, Any] | None) -> None:
    """Let a net add no positions to its inputs if its attention adds position itself.

    Args:
        net: The net, before its attention is replaced.
        attention: Options of the attention, with or without `position`.

    Raises:
        ConfigError: The net needs the positions of its blocks, or its positions are scaled or a convolution.
    """
    if not isinstance(attention, dict) or (position := attention.get("position")) is None:
        return
    for module in net.modules():
        if isinstance(module, StreamPositionalEncoding):
            raise ConfigError(f"position {position} does not fit the blocks of {type(net).__name__}; leave it out")
        if isinstance(module, ScaledPositionalEncoding | ConvolutionalPositionalEmbedding):
            raise ConfigError(f"position {position} of {type(net).__name__} needs pos_enc_layer_type: abs_pos")
    _remove(net)


def remove_positions_of_frontend(model: nn.Module) -> None:
    """Let a frontend that adds positions, such as a text model's, add none if the encoder's attention does."""
    encoder, frontend = getattr(model, "encoder", None), getattr(model, "frontend", None)
    if encoder is None or frontend is None:
        return
    attentions = (module for module in encoder.modules() if isinstance(module, MultiHeadAttention))
    if any(attention.position in POSITIONS for attention in attentions):
        _remove(frontend)


def _remove(net: nn.Module) -> None:
    for parent in list(net.modules()):
        for name, child in parent.named_children():
            if type(child) is PositionalEncoding:
                setattr(parent, name, NoPosition(child))
