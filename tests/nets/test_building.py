"""Building a model for given weights: it stops where it is far larger than they are, and needs no memory for values."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from espnet_diverse.errors import ModelError
from espnet_diverse.nets import building
from espnet_diverse.nets.building import bounded_by, fill, without_values

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


@pytest.fixture
def of_any_size(monkeypatch):
    """Parameters of any size have no values."""
    monkeypatch.setattr(building, "_LARGE", 0)


class Tied(nn.Module):
    """Two layers that share a weight, a recurrent one, and a buffer that a constructor computes."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.recurrent = nn.Linear(3, 3), nn.Linear(3, 3, bias=False), nn.LSTM(3, 3)
        self.second.weight = self.first.weight
        self.first.bias.requires_grad_(False)
        self.register_buffer("positions", torch.arange(3.0), persistent=False)

    def forward(self, x):
        return self.recurrent(self.second(self.first(x)) + self.positions)[0]


def test_a_model_without_values_becomes_that_of_the_state(of_any_size):
    torch.manual_seed(0)
    full, x = Tied(), torch.randn(4, 2, 3)
    drawn = torch.get_rng_state()
    with without_values():
        model = Tied()
    assert all(value.is_meta for value in model.parameters()) and not model.positions.is_meta
    assert torch.equal(torch.get_rng_state(), drawn)  # nothing was drawn
    state = full.state_dict()
    fill(model, state)
    assert torch.equal(model(x), full(x))
    assert model.second.weight is model.first.weight
    assert model.first.weight.data_ptr() == state["first.weight"].data_ptr()  # and not a copy
    assert not model.first.bias.requires_grad and model.first.weight.requires_grad
    model(x).sum().backward()
    assert model.recurrent.weight_ih_l0.grad is not None


def test_values_take_the_type_of_the_parameter_and_do_not_keep_the_rest_of_a_file(of_any_size):
    file = torch.arange(12.0)
    with without_values():
        model, half = nn.Linear(3, 2, bias=False), nn.Linear(3, 2, bias=False)
    fill(model, {"weight": file[3:9].view(2, 3)})
    fill(half, {"weight": file[3:9].view(2, 3).half()})
    assert torch.equal(model.weight, file[3:9].view(2, 3)) and torch.equal(half.weight, model.weight)
    assert half.weight.dtype == torch.float32 and model.weight.untyped_storage().nbytes() == 24


def test_parameters_that_shared_memory_in_the_file_change_alone(of_any_size):
    with without_values():
        model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    shared = torch.ones(3, 3)
    fill(model, {"0.weight": shared, "1.weight": shared})
    with torch.no_grad():
        model[0].weight.zero_()
    assert torch.equal(model[1].weight, torch.ones(3, 3))


def test_other_threads_and_later_modules_have_values(of_any_size):
    with without_values(), ThreadPoolExecutor(1) as thread:
        other = thread.submit(nn.Linear, 4, 3).result()
    later = nn.Linear(4, 3)
    assert not other.weight.is_meta and not later.weight.is_meta and later.weight.std() > 0
    before = later.weight.detach().clone()
    fill(later, {})
    assert torch.equal(later.weight, before)


def test_small_parameters_have_values():
    with without_values():
        model = nn.Linear(512, 256)
    assert model.weight.is_meta and not model.bias.is_meta
