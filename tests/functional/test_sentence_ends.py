import pytest
import torch

from espnet_diverse.functional.sentence_ends import add_sos_eos
from espnet_diverse.upstream.layers import add_sos_eos as theirs


@pytest.mark.parametrize("repeat", [1, 2])
def test_it_is_espnets(repeat):
    tokens = torch.tensor([[3, 4, -1], [5, -1, -1], [6, 7, 8]])
    for ours, expected in zip(add_sos_eos(tokens, 9, 10, -1, repeat), theirs(tokens, 9, 10, -1, repeat), strict=True):
        assert torch.equal(ours, expected)
