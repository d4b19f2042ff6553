"""The BigBird core against loops in double precision, its gradients and its options."""

import pytest
import torch
from references import efficient as oracle
from references.core_inputs import SIZE, H, assert_equals_loops, gradcheck, heads, padding

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.option_checks import OptionError

LENGTHS = (15, 9)
PADDED = padding(*LENGTHS)
OPTIONS = [
    {"block_size": 2, "window_blocks": 1, "global_blocks": 1, "random_blocks": 1},
    {"block_size": 1, "window_blocks": 0, "global_blocks": 0, "random_blocks": 3, "seed": 7},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def inputs(mask=PADDED, **given):
    return heads(mask, LENGTHS[0], **given)


def pattern(options):
    names = ("block_size", "window_blocks", "global_blocks", "random_blocks")
    return *(options[name] for name in names), options.get("seed", 0)


@each_option
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["blocks", "weights"])
def test_equals_loops(options, relative, need_weights):
    core = build_core("bigbird", SIZE, H, options)
    given = inputs(relative=relative, need_weights=need_weights)
    assert_equals_loops(core, given, LENGTHS, lambda time: oracle.bigbird_mask(time, *pattern(options)))


@each_option
def test_causal_equals_loops(options):
    core = build_core("bigbird", SIZE, H, options, causal=True)
    given = inputs(PADDED & torch.ones(15, 15, dtype=torch.bool).tril())
    assert_equals_loops(core, given, LENGTHS, lambda time: oracle.bigbird_mask(time, *pattern(options), True))


def test_gradcheck():
    assert gradcheck(build_core("bigbird", SIZE, H, OPTIONS[0]), inputs(relative=True))


def test_random_blocks_depend_on_the_seed_alone():
    cores = [build_core("bigbird", SIZE, H, OPTIONS[1] | {"seed": seed}) for seed in (7, 7, 8)]
    cores[0].train()
    weights = [core(inputs(need_weights=True))[1] for core in cores]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0] > 0, weights[2] > 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"random_blocks": -1}, "random_blocks must be at least 0, but is -1"),
        ({"block_size": 0}, "block_size must be at least 1, but is 0"),
        ({"cross": True}, "attention 'bigbird' does not support cross-attention; choose one that does: softmax"),
    ],
)
def test_invalid_options_and_unsupported_uses_are_refused(options, text):
    with pytest.raises((OptionError, ValueError), match=text):
        build_attention("bigbird", SIZE, H, **options)
