"""Small random models whose hypotheses differ clearly, for comparing searches."""

import pytest
import torch
from espnet2.asr.ctc import CTC

from espnet_diverse.nets.decoder import DiverseTransformerDecoder

WIDTH = 32


def sharpened(net):
    """`net` in evaluation mode with larger weights, so that its scores are far from uniform; neither a mixing rate nor
    a matrix is 0."""
    for parameter in net.parameters():
        if parameter.dim() > 1:
            parameter.data = 2 * parameter.data if parameter.any() else torch.randn_like(parameter)
    for name, buffer in net.named_buffers():
        if name.endswith("updates.count"):
            buffer.fill_(2000)
    return net.eval()


@pytest.fixture
def build():
    """Build a decoder and a CTC module over `vocabulary` tokens, of which the last is <sos/eos>."""

    def parts(vocabulary=30, cls=DiverseTransformerDecoder, **options):
        torch.manual_seed(0)
        decoder = cls(vocabulary, WIDTH, attention_heads=4, linear_units=64, num_blocks=2, **options)
        ctc = CTC(vocabulary, WIDTH).eval()
        ctc.ctc_lo.weight.data *= 6
        ctc.ctc_lo.bias.data[0] += 3
        return sharpened(decoder), ctc

    return parts


@pytest.fixture
def sources():
    """Encoder outputs (T, M) of utterances of several lengths."""
    torch.manual_seed(1)
    return [torch.randn(frames, WIDTH) for frames in (40, 33, 21, 12, 5)]
