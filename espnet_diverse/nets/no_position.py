"""Nets whose attention has position by itself, see `attention/modifiers/position.py`: they add none to their inputs."""

from typing import Any

from torch import Tensor, nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.upstream.layers import PositionalEncoding


class NoPosition(PositionalEncoding):
    """ESPnet's `PositionalEncoding` with zeros for positions: it scales its input and applies dropout.

    Args:
        whole: The module that it replaces.
    """

    def __init__(self, whole: PositionalEncoding):
        super().__init__(whole.d_model, whole.dropout.p, max_len=1)

    def extend_pe(self, x: Tensor) -> None:
        """Provide the positions of x (B, T, ...): zeros (1, T, M)."""
        self.pe = x.new_zeros(1, 1, 1).expand(1, x.size(1), self.d_model)


def remove_absolute_position(net: nn.Module, embed: nn.Module | None, attention: dict[str, Any] | None) -> None:
    """Let a net add no positions to its inputs if its attention has position by itself.

    Args:
        net: The net, for messages.
        embed: The part that makes the inputs of the layers.
        attention: Options of the attention, with `position` or not.

    Raises:
        ConfigError: The net has other positions, which cannot be removed.
    """
    if (position := (attention or {}).get("position")) is None:
        return
    found = [
        (parent, name, child)
        for parent in (embed.modules() if embed is not None else ())
        for name, child in parent.named_children()
        if isinstance(child, PositionalEncoding)
    ]
    if not found or any(type(child) is not PositionalEncoding for _, _, child in found):
        has = f"{type(net).__name__} has no absolute positions that position: {position} could replace"
        raise ConfigError(f"{has}; set pos_enc_layer_type: abs_pos and selfattention_layer_type: selfattn")
    for parent, name, child in found:
        setattr(parent, name, NoPosition(child))
