"""Building a model stops where its configuration asks for far more than its weights have."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from espnet_diverse.errors import ModelError
from espnet_diverse.nets.size_limits import bounded_by

STATE = {"weight": torch.zeros(3, 4), "bias": torch.zeros(3), "step": 3}


def test_a_somewhat_larger_model_than_the_weights_is_built():
    with bounded_by(STATE, "x.pth"):
        for _ in range(3):
            nn.Linear(4, 3)
        nn.LSTM(4, 3).register_buffer("empty", None)


@pytest.mark.parametrize(
    "build",
    [
        lambda: [nn.LayerNorm(1) for _ in range(1000)],
        lambda: nn.Linear(100_000, 100_000, device="meta"),  # or the allocation itself could fail
        lambda: nn.Embedding(2**40, 2, device="meta"),
        lambda: nn.Module().register_buffer("large", torch.empty(100_000_000)),
    ],
)
def test_far_larger_ones_are_not(build):
    said = "^x.pth: the configuration asks for a far larger model than these weights, which have 2 tensors of 15 values"
    with pytest.raises(ModelError, match=said), bounded_by(STATE, "x.pth"):
        build()
    for _ in range(1001):  # the limit ends with its block
        nn.LayerNorm(1)


def test_modules_of_another_thread_do_not_count():
    with bounded_by(STATE, "x.pth"), ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: [nn.LayerNorm(1) for _ in range(1001)]).result()
        nn.Linear(4, 3)
