"""Whisper's encoder: ESPnet's transformer encoder after two convolutions, with a choice of attention."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.encoder import DiverseTransformerEncoder
from espnet_diverse.upstream.layers import Conv1dSubsampling2

NORM_EPS = 1e-5
"""Epsilon of Whisper's layer norms; ESPnet's have 1e-12."""


class WhisperSubsampling(Conv1dSubsampling2):
    """Two convolutions with GELU, the second with stride 2, and sinusoids as positions.

    Padding of a batch stays zero between the convolutions, so that a sample does not depend on the others.

    Args:
        features: Number of features of a frame.
        width: Number of channels.
        positions: Greatest number of output frames.
    """

    positions: Tensor

    def __init__(self, features: int, width: int, positions: int):
        nn.Module.__init__(self)  # ESPnet's convolutions have no padding
        self.conv = nn.ModuleList([nn.Conv1d(features, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, padding=1)])
        self.register_buffer("positions", sinusoids(positions, width))

    def forward(self, x: Tensor, x_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """x (B, T, features), x_mask (B, 1, T), True = valid -> (B, (T + 1) // 2, width), (B, 1, (T + 1) // 2).

        Raises:
            DataError: There are more frames than positions.
        """
        first, second = self.conv
        x = x.transpose(1, 2)
        x = F.gelu(first(x if x_mask is None else x * x_mask))
        x = F.gelu(second(x if x_mask is None else x * x_mask)).transpose(1, 2)
        if x.size(1) > len(self.positions):
            most = 2 * len(self.positions)
            raise DataError(f"{2 * x.size(1)} frames are more than the {most} that the encoder reads; split the audio")
        return x + self.positions[: x.size(1)], None if x_mask is None else x_mask[..., ::2]


class DiverseMelEncoder(DiverseTransformerEncoder):
    """Whisper's encoder; `encoder: diverse_whisper` in configurations.

    ESPnet takes an encoder whose class has Whisper in its name for one that reads samples; this one reads features.

    Args:
        input_size: Number of features of a frame.
        output_size: Width M.
        attention_heads, linear_units, num_blocks: Sizes of the layers.
        max_positions: Greatest number of output frames, of 20 ms each.
        dropout_rate, attention_dropout_rate: Dropout in training; Whisper had none.
        attention: `{"core": name, **options of the core}`; None is softmax.
        adapter: `AdapterOptions` by name; None adds no adapters.

    Raises:
        ConfigError: An option has a value that is not allowed, or the attention adds position itself.
    """

    __signature__: Any = None  # that of its own constructor, and not that of the base class

    def __init__(
        self,
        input_size: int,
        output_size: int = 512,
        attention_heads: int = 8,
        linear_units: int = 2048,
        num_blocks: int = 6,
        max_positions: int = 1500,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        attention: dict | None = None,
        adapter: dict | None = None,
    ):
        check_absolute(attention, type(self).__name__)
        options: dict = {"output_size": output_size, "attention_heads": attention_heads, "linear_units": linear_units}
        options |= {"dropout_rate": dropout_rate, "attention_dropout_rate": attention_dropout_rate}
        options |= {"num_blocks": num_blocks, "input_layer": "conv1d2"}
        super().__init__(input_size, attention=attention, adapter=adapter, **options)
        self.embed = WhisperSubsampling(input_size, output_size, max_positions)
        as_whisper(self)


def sinusoids(length: int, width: int) -> Tensor:
    """Positions (length, width) of Whisper's encoder: sines in half of the channels, then cosines."""
    frequencies = torch.exp(-math.log(10_000) / (width // 2 - 1) * torch.arange(width // 2))
    angles = torch.arange(length).unsqueeze(1) * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def as_whisper(net: nn.Module) -> None:
    """Give the layers of ESPnet's transformer the activation and the epsilon of Whisper's."""
    for module in net.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = NORM_EPS
        if hasattr(module, "w_1") and hasattr(module, "activation"):
            module.activation = nn.GELU()


def check_absolute(attention: dict | None, net: str) -> None:
    """Refuse an attention that adds position itself: the trained inputs hold the positions.

    Raises:
        ConfigError: It has another position than "absolute".
    """
    position = (attention or {}).get("position") if isinstance(attention, dict) else None
    if position is not None:
        raise ConfigError(f"position {position} does not fit {net}, whose inputs hold the positions; leave it out")
