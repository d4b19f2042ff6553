"""The window core against loops in double precision, its gradients, its options, and the memory that it takes."""

import pytest
import torch
from references import efficient as oracle
from references.core_inputs import SIZE, H, assert_equals_loops, gradcheck, heads, padding
from references.golden import golden
from torch.profiler import ProfilerActivity, profile

from espnet_diverse.attention import Heads, build_attention, build_core
from espnet_diverse.option_checks import OptionError

LENGTHS = (11, 6)
PADDED = padding(*LENGTHS)
OPTIONS = [
    {"window": 2},
    {"window": 1, "dilation": 2},
    {"window": 1, "global_tokens": 1},
    {"window": 1, "dilation": 3, "global_tokens": 1},
    {"window": 1, "global_tokens": [7, 0, 6, 50]},
    {"window": 1, "dilation": 2, "global_tokens": [5]},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def inputs(mask=PADDED, **given):
    return heads(mask, LENGTHS[0], **given)


def pattern(options):
    chosen = options.get("global_tokens", 0)
    runs = [range(chosen)] if isinstance(chosen, int) else [range(p, p + 1) for p in chosen]
    return options["window"], options.get("dilation", 1), runs


@each_option
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["blocks", "weights"])
def test_equals_loops(options, relative, need_weights):
    core = build_core("window", SIZE, H, options)
    given = inputs(relative=relative, need_weights=need_weights)
    assert_equals_loops(core, given, LENGTHS, lambda time: oracle.window_mask(time, *pattern(options)))


@pytest.mark.parametrize("chosen", [1, [0, 3], [4, 5]], ids=str)
def test_causal_equals_loops(chosen):
    options = {"window": 2, "global_tokens": chosen}
    core = build_core("window", SIZE, H, options, causal=True)
    given = inputs(PADDED & torch.ones(11, 11, dtype=torch.bool).tril())
    assert_equals_loops(core, given, LENGTHS, lambda time: oracle.window_mask(time, *pattern(options), True))


@pytest.mark.parametrize("options", [OPTIONS[0], *OPTIONS[3:]], ids=str)
def test_gradcheck(options):
    assert gradcheck(build_core("window", SIZE, H, options), inputs(relative=True))


@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("options", [{}, {"global_tokens": 2}, {"global_tokens": [0, 99]}, {"dilation": 2}], ids=str)
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
        ({"global_tokens": -1}, "global_tokens must be at least 0 or a list, but is -1"),
        ({"global_tokens": 1.5}, "global_tokens must be a whole number or a list, but is 1.5"),
        ({"global_tokens": [0, -1]}, "global_tokens must be at least 0, but is -1"),
        ({"global_tokens": [7, 0, 7]}, r"global_tokens must be a list of different positions, but is \[7, 0, 7\]"),
        ({"cross": True}, "attention 'window' does not support cross-attention; choose one that does: softmax"),
    ],
)
def test_invalid_options_and_unsupported_uses_are_refused(options, text):
    with pytest.raises((OptionError, ValueError), match=text):
        build_attention("window", SIZE, H, **options)


def test_the_reach_matches_the_window():
    assert build_core("window", 4, 2, {"window": 5, "dilation": 3}).reach == 15
    assert build_core("window", 4, 2, {"global_tokens": 1}).reach is None
    assert build_core("window", 4, 2, {"global_tokens": [0]}).reach is None


def test_a_list_of_the_first_positions_is_their_number():
    for given in (3, [2, 0, 1]):
        assert build_core("window", 4, 2, {"global_tokens": given}).pattern.global_runs == (range(3),)
    runs = (range(1), range(7, 9))
    assert build_core("window", 4, 2, {"global_tokens": [8, 0, 7]}).pattern.global_runs == runs
    assert build_core("window", 4, 2).pattern.global_runs == ()


def test_golden_attention_with_chosen_positions():
    arrays = golden("sparse_masks")
    q, k, v = (arrays[x][None, None] for x in "qkv")
    core = build_core("window", 8, 1, {"window": 2, "global_tokens": [0, 7]})
    given = Heads(q, k, v, q[0], q[0], q, need_weights=True)
    context, weights = core(given)
    assert torch.equal(weights[0, 0] > 0, arrays["global_window_w2_g0_7"])
    torch.testing.assert_close(context[0, 0], arrays["out_global_window_w2_g0_7"], atol=1e-10, rtol=1e-10)
