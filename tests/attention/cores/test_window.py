"""The window core against loops in double precision, its gradients, its options, and the memory that it takes."""

import pytest
import torch
from references import efficient as oracle
from references.core_inputs import SIZE, H, assert_equals_loops, gradcheck, heads, padding
from torch.profiler import ProfilerActivity, profile

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.option_checks import OptionError

LENGTHS = (11, 6)
PADDED = padding(*LENGTHS)
OPTIONS = [
    {"window": 2},
    {"window": 1, "dilation": 2},
    {"window": 1, "global_tokens": 1},
    {"window": 1, "dilation": 3, "global_tokens": 1},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def inputs(mask=PADDED, **given):
    return heads(mask, LENGTHS[0], **given)


def pattern(options):
    return options["window"], options.get("dilation", 1), options.get("global_tokens", 0)


@each_option
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["blocks", "weights"])
def test_equals_loops(options, relative, need_weights):
    core = build_core("window", SIZE, H, options)
    given = inputs(relative=relative, need_weights=need_weights)
    assert_equals_loops(core, given, LENGTHS, lambda time: oracle.window_mask(time, *pattern(options)))


def test_causal_equals_loops():
    options = {"window": 2, "global_tokens": 1}
    core = build_core("window", SIZE, H, options, causal=True)
    given = inputs(PADDED & torch.ones(11, 11, dtype=torch.bool).tril())
    assert_equals_loops(core, given, LENGTHS, lambda time: oracle.window_mask(time, *pattern(options), True))


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[3]], ids=str)
def test_gradcheck(options):
    assert gradcheck(build_core("window", SIZE, H, options), inputs(relative=True))


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
    _, weights = build_core("window", SIZE, H, {"window": 1})(inputs(need_weights=True))
    i = torch.arange(LENGTHS[0])
    assert (weights[..., (i.unsqueeze(1) - i).abs() > 1] == 0).all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"window": -1}, "window must be at least 0, but is -1"),
        ({"window": 2.5}, "window must be a whole number, but is 2.5"),
        ({"dilation": 0}, "dilation must be at least 1, but is 0"),
        ({"cross": True}, "attention 'window' does not support cross-attention; choose one that does: softmax"),
    ],
)
def test_invalid_options_and_unsupported_uses_are_refused(options, text):
    with pytest.raises((OptionError, ValueError), match=text):
        build_attention("window", SIZE, H, **options)


def test_the_reach_matches_the_window():
    assert build_core("window", 4, 2, {"window": 5, "dilation": 3}).reach == 15
    assert build_core("window", 4, 2, {"global_tokens": 1}).reach is None
