"""Compressed memory: the golden array, its loss, padding, gradients."""

import pytest
import torch
from references.golden import golden
from torch.nn.functional import conv1d

from espnet_diverse.attention import build_attention
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.memory.base import Slots
from espnet_diverse.nets.memory.compressive import CompressiveMemory, CompressiveOptions, CompressiveState, read_from
from espnet_diverse.scope import scope

GOLDEN = golden("xl_compressive")


def build(compression="conv", **options):
    torch.manual_seed(0)
    given = {"segment": 4, "slots": 8, "compressed_slots": 3, "ratio": 2, "compression": compression} | options
    return CompressiveMemory(4, 2, CompressiveOptions(**given)).double()


@pytest.mark.parametrize("compression", ["conv", "mean"])
def test_it_equals_the_golden_arrays(compression):
    memory = build(compression)
    if compression == "conv":
        memory.load_state_dict({"convolution.weight": GOLDEN["conv_w"], "convolution.bias": torch.zeros(4)})
    full = torch.ones(2, 8, dtype=torch.bool)
    before = torch.cat([torch.zeros(2, 1, 4), GOLDEN["cmem"]], 1)  # 2 of 3 compressed slots are filled
    state = CompressiveState(GOLDEN["mem"], full, before, torch.tensor([[False, True, True]] * 2))
    state = memory.update(state, [GOLDEN["seg"]], full[:, :4])
    torch.testing.assert_close(state.values, GOLDEN["new_mem"], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(state.compressed, GOLDEN[f"new_cmem_{compression}"], rtol=1e-10, atol=1e-10)
    assert state.valid.all() and state.filled.all()


def test_attention_reads_the_slots_in_the_order_of_time():
    memory, x = build("max"), torch.arange(20.0).double().view(1, 5, 4, 1).expand(-1, -1, -1, 4)
    slots, _ = memory.read(x, torch.ones(1, 5, 4, dtype=torch.bool), None, None)
    assert slots.valid.sum(-1).tolist() == [[0, 4, 8, 10, 11]]
    assert slots.values[0, -1, :, 0].tolist() == [3, 5, 7, *range(8, 16)]
    assert memory.options.keys == 11


def test_the_reconstruction_loss_equals_loops():
    memory, attention = build(slots=2), build_attention("softmax", 4, 2).double()
    x, valid = torch.randn(2, 2, 4, 4).double(), torch.ones(2, 2, 4, dtype=torch.bool)
    valid[1, 1, 2:] = False
    with scope() as shared:
        memory.read(x, valid, attention, None)
    # segment 0: frames 0 and 1 leave (the slots before are empty); segment 1: frames 2, 3, 4 and 5
    old = torch.cat([torch.zeros(2, 2, 4).double(), x[:, 0]], 1)[:, :4], torch.cat([x[:, 0, 2:], x[:, 1]], 1)[:, :4]
    total, count = 0.0, 0
    for b in range(2):
        for segment, frames in enumerate(old):
            whole = frames[b, 2:] if segment == 0 else frames[b]
            packed = conv1d(whole.T, memory.convolution.weight, memory.convolution.bias, stride=2).T
            for t in range(4):
                if valid[b, segment, t]:
                    query = x[b, segment, t]
                    total += (oracle(attention, query, whole) - oracle(attention, query, packed)).square().sum()
                    count += 4
    torch.testing.assert_close(shared.losses()["memory_reconstruction"], total / count)


def oracle(attention, query, frames):
    """Attention of one query to frames (N, M), its heads side by side."""
    q, k, v = attention.linear_q(query), attention.linear_k(frames), attention.linear_v(frames)
    heads = []
    for h in range(2):
        part = slice(2 * h, 2 * h + 2)
        heads.append(torch.softmax(k[:, part] @ q[part] / 2**0.5, 0) @ v[:, part])
    return torch.cat(heads)


def test_the_loss_trains_the_convolution_alone():
    memory, attention = build(), build_attention("softmax", 4, 2).double()
    x = torch.randn(2, 4, 4, 4).double().requires_grad_()
    with scope() as shared:
        memory.read(x, torch.ones(2, 4, 4, dtype=torch.bool), attention, None)
    shared.total_loss().backward()
    assert x.grad is None and all(p.grad is None for p in attention.parameters())
    assert memory.convolution.weight.grad.abs().sum() > 0


def test_gradients():
    attention, valid = build_attention("softmax", 4, 2).double(), torch.tensor([[True, True, False]])
    queries, values = torch.randn(1, 2, 4).double(), torch.randn(1, 3, 4).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda values: read_from(attention, queries, Slots(values, valid)), values)


@pytest.mark.parametrize("compression", ["mean", "max"])
def test_a_compression_without_parameters_has_no_loss(compression):
    memory = build(compression)
    with scope() as shared:
        memory.read(torch.randn(1, 4, 4, 4).double(), torch.ones(1, 4, 4, dtype=torch.bool), None, None)
    assert shared.losses() == {} and not list(memory.parameters())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ratio": 0}, "ratio must be at least 1, but is 0"),
        ({"compressed_slots": 0}, "compressed_slots must be at least 1, but is 0"),
        ({"segment": 6, "ratio": 4}, "segment must be a multiple of ratio 4, but is 6"),
        ({"slots": 6, "ratio": 4}, "slots must be a multiple of ratio 4, but is 6"),
        ({"compression": "sum"}, "compression must be one of conv mean max, but is 'sum'"),
    ],
)
def test_wrong_options_are_named(options, said):
    with pytest.raises(ConfigError, match=said):
        CompressiveOptions(**options)
