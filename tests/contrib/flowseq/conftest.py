"""Small nets of FlowSeq with random weights in double precision, without dropout, and a source of two sentences."""

import pytest
import torch

from espnet_diverse.contrib.flowseq.decoder import FlowDecoder
from espnet_diverse.contrib.flowseq.transformer import Source

WIDTH, VOCABULARY = 16, 9
OPTIONS = {"attention_heads": 2, "linear_units": 16, "num_blocks": 1, "dropout_rate": 0.0}
FLOW = {"latent": 8, "groups": 2, "steps": 2, "posterior_blocks": 1, "most_difference": 3}


@pytest.fixture
def build():
    """Build a decoder; all its weights are random, also those that begin as 0."""

    def decoder(spread: float = 0.2, **options) -> FlowDecoder:
        torch.manual_seed(0)
        net = FlowDecoder(VOCABULARY, WIDTH, flow=FLOW, positional_dropout_rate=0.0, **(OPTIONS | options)).double()
        for parameter in net.parameters():
            parameter.data += spread * torch.randn_like(parameter)
        return net

    return decoder


@pytest.fixture
def source() -> Source:
    """Encoder outputs of 5 and 3 frames; at padding stands what no net may read."""
    torch.manual_seed(1)
    source = Source.of(torch.randn(2, 5, WIDTH, dtype=torch.float64), torch.tensor([5, 3]))
    return source._replace(output=source.output.masked_fill(~source.valid.unsqueeze(-1), 50.0))


@pytest.fixture
def valid() -> torch.Tensor:
    """Which target positions of the two sentences are not padding, (2, 4)."""
    return torch.tensor([[True, True, True, False], [True, True, True, True]])
