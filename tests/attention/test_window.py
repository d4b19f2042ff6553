"""The window core against loops in double precision, its gradients, its options, and the memory that it takes."""

import pytest
import torch
from references import efficient, sdma
from references import sdma as oracle
from torch.profiler import ProfilerActivity, profile

from espnet_diverse.attention import Heads, Inputs, build_attention, build_core
from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.option_checks import OptionError

B, H, T, D = 2, 2, 11, 3
SIZE = H * D
LENGTHS = (11, 6)
PADDED = (torch.arange(T) < torch.tensor(LENGTHS).unsqueeze(1)).view(B, 1, 1, T)
OPTIONS = [
    {"window": 2},
    {"window": 1, "dilation": 2},
    {"window": 1, "global_tokens": 1},
    {"window": 1, "dilation": 3, "global_tokens": 1},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def heads(relative=False, **given):
    x = draw(B, T, SIZE)
    q, k, v = (draw(B, H, T, D, seed=seed) for seed in (1, 2, 3))
    term = PositionTerm(draw(B, H, T, D, seed=4), draw(1, H, 2 * T - 1, D, seed=5)) if relative else None
    return Heads(q, k, v, x, x, q, Inputs(x, x, x), PADDED, position_term=term, **given)


def seen(options, time, causal=False):
    return efficient.window_mask(
        time, options["window"], options.get("dilation", 1), options.get("global_tokens", 0), causal
    )


@each_option
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["blocks", "weights"])
def test_equals_loops(options, relative, need_weights):
    given = heads(relative, need_weights=need_weights)
    context, weights = build_core("window", SIZE, H, **options)(given)
    for b, n in enumerate(LENGTHS):
        for h in range(H):
            q, k = given.q[b, h, :n].numpy(), given.k[b, h, :n].numpy()
            bias = given.position_term.matrix()[b, h, :n, :n].numpy() / D**0.5 if relative else None
            expected = torch.tensor(oracle.attention(q, k, seen(options, n), bias=bias))
            torch.testing.assert_close(context[b, h, :n], expected @ given.v[b, h, :n])
            if need_weights:
                torch.testing.assert_close(weights[b, h, :n, :n], expected)


def test_causal_equals_loops():
    options = {"window": 2, "global_tokens": 1}
    given = heads()
    given.mask = PADDED & torch.ones(T, T, dtype=torch.bool).tril()
    context, _ = build_core("window", SIZE, H, causal=True, **options)(given)
    for b, n in enumerate(LENGTHS):
        for h in range(H):
            q, k = given.q[b, h, :n].numpy(), given.k[b, h, :n].numpy()
            weights = sdma.attention(q, k, seen(options, n, causal=True))
            torch.testing.assert_close(context[b, h, :n], torch.tensor(weights) @ given.v[b, h, :n])


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[3]], ids=str)
def test_gradcheck(options):
    core, given = build_core("window", SIZE, H, **options), heads(relative=True)

    def context(*x):
        q, k, v, q_position, p = x
        term = PositionTerm(q_position, p)
        one = Heads(q, k, v, given.query, given.query, q, given.perturbed, PADDED[1:], position_term=term)
        return core(one)[0]

    tensors = [
        given.q[1:, :1],
        given.k[1:, :1],
        given.v[1:, :1],
        given.position_term.q[1:, :1],
        given.position_term.p[:, :1],
    ]
    assert torch.autograd.gradcheck(context, [x.clone().requires_grad_() for x in tensors])


@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("options", [{}, {"global_tokens": 2}, {"dilation": 2}], ids=str)
def test_memory_grows_linearly(options, relative):
    """No allocation of a pass with gradients has the size of the scores of all pairs, and none grows faster than T."""
    module = build_attention("window", 8, 2, relative=relative, **{"window": 4} | options)
    largest = []
    for time in (512, 1024):
        x = torch.randn(1, time, 8, requires_grad=True)
        position = [torch.randn(1, 2 * time - 1, 8)] if relative else []
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record:
            module(x, x, x, *position, torch.ones(1, 1, time, dtype=torch.bool)).sum().backward()
        largest.append(max(event.cpu_memory_usage for event in record.events()))
    assert largest[1] <= 2.1 * largest[0]
    assert largest[1] < 4 * 2 * 1024 * 1024


def test_weights_are_zero_outside_the_window():
    _, weights = build_core("window", SIZE, H, window=1)(heads(need_weights=True))
    i = torch.arange(T)
    assert (weights[..., (i.unsqueeze(1) - i).abs() > 1] == 0).all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"window": -1}, "window -1 is negative; give 0 or more"),
        ({"window": 2.5}, "window 2.5 is not a whole number"),
        ({"dilation": 0}, "dilation 0 would repeat one position; give 1 or more"),
        ({"cross": True}, "attention 'window' does not support cross-attention; choose one that does: softmax"),
    ],
)
def test_what_is_no_window_is_refused(options, text):
    with pytest.raises((OptionError, ValueError), match=text):
        build_attention("window", SIZE, H, **options)


def test_the_reach_is_that_of_the_window():
    assert build_core("window", 4, 2, window=5, dilation=3).reach == 15
    assert build_core("window", 4, 2, global_tokens=1).reach is None
