"""Subsampling of speech features by 4: ESPnet's convolutions in chunks, and fairseq's gated convolutions.

ESPnet's two convolutions have as many channels as the model is wide: with 256 channels and 80 features they take 4 MB
for each second of audio, far more than the rest of an encoder with linear attention. Without gradients they are
computed in chunks. A frame of the output depends on 7 frames of the input, so the result is the same.

The gated convolutions over time come from fairseq's speech-to-text transformer: Wang et al., "fairseq S2T: Fast
Speech-to-Text Modeling with fairseq", AACL 2020, with the gated linear unit of Dauphin et al. 2017. Each has kernel
size 5 and stride 2. The first has `channels` output channels and the second twice the model width; a gated linear unit
halves both. Padding is set to zero before each convolution, so the output of a sample does not depend on the length of
its batch.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.option_checks import Rule
from espnet_diverse.upstream.layers import Conv2dSubsampling

GATED = "conv1d4_glu"
"""Value of `input_layer` that selects this subsampling."""


_CHUNK = 512
"""Frames of the output in a chunk of ESPnet's convolutions, 20 seconds."""


class ChunkedConvSubsampling(Conv2dSubsampling):
    """ESPnet's `Conv2dSubsampling`, which without gradients computes long inputs in chunks.

    Args:
        layer: ESPnet's module, whose parts it takes over.
    """

    def __init__(self, layer: Conv2dSubsampling):
        nn.Module.__init__(self)
        self.conv, self.out, self.pos_enc = layer.conv, layer.out, layer.pos_enc

    def forward(self, x: Tensor, x_mask: Tensor | None, prefix_embeds: Tensor | None = None):
        """Subsample x (B, T, features), x_mask (B, 1, T) -> ESPnet's result, of ((T - 1) // 2 - 1) // 2 frames.

        The frames of a prompt, `prefix_embeds` (B, P, M), come before them; x is then computed at once.
        """
        frames = _frames(x.size(1))
        if torch.is_grad_enabled() or frames <= _CHUNK or prefix_embeds is not None:
            return super().forward(x, x_mask, prefix_embeds)
        out = x.new_empty(len(x), frames, self.out.out_features)
        for t in range(0, frames, _CHUNK):
            out[:, t : t + _CHUNK] = self._subsampled(x[:, 4 * t : 4 * (t + _CHUNK) + 3])
        if x_mask is not None:
            x_mask = lengths_to_mask(_frames(x_mask.sum(-1).squeeze(1)).clamp(min=0), frames)[:, None]
        return self.pos_enc(out), x_mask

    def part(self, x: Tensor, start: int) -> Tensor:
        """Compute the frames of the output from `start` on, given x (B, T, features) from frame 4 * start on.

        Returns:
            Frames with their positions in the whole sequence, (B, n, M) with n = ((T - 1) // 2 - 1) // 2, perhaps 0.
        """
        frames = max(0, _frames(x.size(1)))
        if not frames:
            return x.new_empty(len(x), 0, self.out.out_features)
        out, position = self._subsampled(x), self.pos_enc
        position.extend_pe(out.new_empty(1, start + frames))
        return position.dropout(out * position.xscale + position.pe[:, start : start + frames])

    def _subsampled(self, x: Tensor) -> Tensor:
        return self.out(self.conv(x.unsqueeze(1)).transpose(1, 2).flatten(2))


def _frames(length):
    # Two convolutions of kernel size 3 and stride 2.
    return ((length - 1) // 2 - 1) // 2


class GatedConvSubsampling(Conv2dSubsampling):
    """Subsampling for `input_layer: conv1d4_glu`; the base class tells ESPnet's encoders how to call it.

    Args:
        features: Number of features of a frame.
        size: Model width M.
        channels: Number of output channels of the first convolution, an even number.
        position: Module that adds positional encodings.

    Raises:
        ConfigError: `channels` is no positive even number.
    """

    def __init__(self, features: int, size: int, channels: int, position: nn.Module):
        nn.Module.__init__(self)  # without the convolutions of the base class
        Rule(int, least=2).check("conv_channels", channels)
        if channels % 2:
            raise ConfigError(f"conv_channels is {channels}; a gated linear unit needs an even number")
        self.conv = nn.ModuleList(
            [
                nn.Conv1d(features, channels, kernel_size=5, stride=2, padding=2),
                nn.Conv1d(channels // 2, 2 * size, kernel_size=5, stride=2, padding=2),
            ]
        )
        self.pos_enc = position

    def forward(self, x: Tensor, x_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Subsample x (B, T, features), x_mask (B, 1, T) -> (B, T4, M), (B, 1, T4), with T4 = ceil(T/4)."""
        x = x.transpose(1, 2)
        for convolution in self.conv:
            if x_mask is not None:
                x = x * x_mask
                x_mask = x_mask[:, :, ::2]
            x = F.glu(convolution(x), dim=1)
        return self.pos_enc(x.transpose(1, 2)), x_mask
