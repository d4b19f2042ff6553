"""Two gated convolutions over time that reduce the frame rate by 4, as in fairseq's speech-to-text transformer.

Wang et al., "fairseq S2T: Fast Speech-to-Text Modeling with fairseq", AACL 2020; the gate is Dauphin et al. 2017. Each
convolution has kernel 5 and stride 2; the first gives `channels` channels and the second twice the model width, and a
gated linear unit halves both. Frames of padding are zero before each convolution, so that a sample's output does not
depend on the length of its batch.
"""

import torch.nn.functional as F
from espnet.nets.pytorch_backend.transformer.subsampling import Conv2dSubsampling
from torch import Tensor, nn

from espnet_diverse.errors import ConfigError

GATED = "conv1d4_glu"
"""The value of `input_layer` that names it."""


class GatedConvSubsampling(Conv2dSubsampling):
    """`input_layer: conv1d4_glu`, under the type whose interface ESPnet's encoders know.

    Args:
        features: Features of a frame.
        size: Model width M.
        channels: Output channels of the first convolution, an even number.
        position: Positional encoding.

    Raises:
        ConfigError: `channels` is not a positive even number.
    """

    def __init__(self, features: int, size: int, channels: int, position: nn.Module):
        nn.Module.__init__(self)  # not the convolutions of the base
        if channels < 2 or channels % 2:
            raise ConfigError(f"conv_channels is {channels}; a gated linear unit needs a positive even number")
        self.conv = nn.ModuleList(
            [
                nn.Conv1d(features, channels, kernel_size=5, stride=2, padding=2),
                nn.Conv1d(channels // 2, 2 * size, kernel_size=5, stride=2, padding=2),
            ]
        )
        self.out = nn.Sequential(position)

    def forward(self, x: Tensor, x_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """x (B, T, features), x_mask (B, 1, T) -> (B, ceil(T/4), M) with positions, mask (B, 1, ceil(T/4))."""
        x = x.transpose(1, 2)
        for convolution in self.conv:
            if x_mask is not None:
                x = x * x_mask
                x_mask = x_mask[:, :, ::2]
            x = F.glu(convolution(x), dim=1)
        return self.out(x.transpose(1, 2)), x_mask
