"""The BigBird core against loops in double precision, its gradients and its options."""

import pytest
import torch
from references import efficient
from references import sdma as oracle

from espnet_diverse.attention import Heads, Inputs, build_attention, build_core
from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.option_checks import OptionError

B, H, T, D = 2, 2, 15, 3
SIZE = H * D
LENGTHS = (15, 9)
PADDED = (torch.arange(T) < torch.tensor(LENGTHS).unsqueeze(1)).view(B, 1, 1, T)
OPTIONS = [
    {"block_size": 2, "window_blocks": 1, "global_blocks": 1, "random_blocks": 1},
    {"block_size": 1, "window_blocks": 0, "global_blocks": 0, "random_blocks": 3, "seed": 7},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def heads(relative=False, mask=PADDED, **given):
    x = draw(B, T, SIZE)
    q, k, v = (draw(B, H, T, D, seed=seed) for seed in (1, 2, 3))
    term = PositionTerm(draw(B, H, T, D, seed=4), draw(1, H, 2 * T - 1, D, seed=5)) if relative else None
    return Heads(q, k, v, x, x, q, Inputs(x, x, x), mask, position_term=term, **given)


def seen(options, time, causal=False):
    blocks = (options[name] for name in ("block_size", "window_blocks", "global_blocks", "random_blocks"))
    return efficient.bigbird_mask(time, *blocks, options.get("seed", 0), causal)


@each_option
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["blocks", "weights"])
def test_equals_loops(options, relative, need_weights):
    given = heads(relative, need_weights=need_weights)
    context, weights = build_core("bigbird", SIZE, H, **options)(given)
    for b, n in enumerate(LENGTHS):
        for h in range(H):
            q, k = given.q[b, h, :n].numpy(), given.k[b, h, :n].numpy()
            bias = given.position_term.matrix()[b, h, :n, :n].numpy() / D**0.5 if relative else None
            expected = torch.tensor(oracle.attention(q, k, seen(options, n), bias=bias))
            torch.testing.assert_close(context[b, h, :n], expected @ given.v[b, h, :n])
            if need_weights:
                torch.testing.assert_close(weights[b, h, :n, :n], expected)


@each_option
def test_causal_equals_loops(options):
    given = heads(mask=PADDED & torch.ones(T, T, dtype=torch.bool).tril())
    context, _ = build_core("bigbird", SIZE, H, causal=True, **options)(given)
    for b, n in enumerate(LENGTHS):
        for h in range(H):
            q, k = given.q[b, h, :n].numpy(), given.k[b, h, :n].numpy()
            weights = oracle.attention(q, k, seen(options, n, causal=True))
            torch.testing.assert_close(context[b, h, :n], torch.tensor(weights) @ given.v[b, h, :n])


def test_gradcheck():
    core, given = build_core("bigbird", SIZE, H, **OPTIONS[0]), heads(relative=True)

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


def test_the_random_blocks_are_those_of_the_seed_in_training_and_evaluation():
    cores = [build_core("bigbird", SIZE, H, **OPTIONS[1] | {"seed": seed}) for seed in (7, 7, 8)]
    cores[0].train()
    weights = [core(heads(need_weights=True))[1] for core in cores]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0] > 0, weights[2] > 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"random_blocks": -1}, "random_blocks -1 is negative; give 0 or more"),
        ({"block_size": 0}, "block_size 0 makes no blocks; give 1 or more"),
        ({"cross": True}, "attention 'bigbird' does not support cross-attention; choose one that does: softmax"),
    ],
)
def test_what_makes_no_blocks_is_refused(options, text):
    with pytest.raises((OptionError, ValueError), match=text):
        build_attention("bigbird", SIZE, H, **options)
