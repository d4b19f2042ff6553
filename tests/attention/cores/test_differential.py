"""The differential core against loops in double precision, its gradients, its start, and its options."""

import math

import pytest
import torch
from espnet2.torch_utils.initialize import initialize
from references import softmax_variants as oracle
from references.core_inputs import BY_HEAD, CAUSAL, PADDED, draw

from espnet_diverse.attention import Heads, Inputs, build_attention, build_core
from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.option_checks import OptionError

B, H, D, T = 2, 2, 4, 6
SIZE = H * D
MASKS = {"none": None, "padding": PADDED, "causal": CAUSAL, "heads": BY_HEAD}


def build(**options):
    torch.manual_seed(0)
    core = build_core("differential", SIZE, H, options).double()
    for parameter in core.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return core


def inputs(mask, relative=False, **given):
    x = draw(B, T, SIZE)
    q, k, v = (draw(B, H, T, D, seed=seed) for seed in (1, 2, 3))
    term = PositionTerm(draw(B, H, T, D, seed=4), draw(1, H, 2 * T - 1, D, seed=5)) if relative else None
    return Heads(q, k, v, x, x, q, Inputs(x, x, x), mask, position_term=term, **given)


def terms(given, b, h, n):
    """The position terms (2, n, n) of the halves, pair by pair: (q_i + v) . r_{i-j} over one half of the width."""
    result = torch.zeros(2, n, n, dtype=torch.double)
    if given.position_term is not None:
        for half, part in enumerate((slice(0, D // 2), slice(D // 2, D))):
            q, p = given.position_term.q[b, h, :, part], given.position_term.p[0, h, :, part]
            for i in range(n):
                for j in range(n):
                    result[half, i, j] = q[i] @ p[T - 1 - (i - j)]
    return result.numpy()


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_equals_loops(mask, relative):
    core, given = build(lambda_init=0.3), inputs(mask, relative)
    context, weights = core(given)
    vectors = torch.stack([core.lambda_q, core.lambda_k], 1).flatten(0, 1).detach().numpy()
    for b, n in enumerate((6, 6) if mask is None else (6, 4)):
        seen = torch.ones(H, n, n).bool() if mask is None else mask.expand(B, H, T, T)[b, :, :n, :n]
        for h in range(H):
            q, k, v = (x[b, h, :n].numpy() for x in (given.q, given.k, given.v))
            norm = core.norm.detach().numpy()
            expected = oracle.differential(q, k, v, vectors, 0.3, norm, seen[h].numpy(), terms(given, b, h, n))
            torch.testing.assert_close(context[b, h, :n], torch.tensor(expected))
    assert weights is None


@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_gradcheck(relative):
    module = build_attention("differential", SIZE, H, relative=relative).double()
    names = [name for name, _ in module.named_parameters() if name.startswith("core.")]
    rest = [draw(1, 7, SIZE, seed=1)] if relative else []
    rest.append(torch.ones(1, 4, 4, dtype=torch.bool).tril())

    def attend(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x, x, x, *rest))

    given = [draw(1, 4, SIZE), *(module.get_parameter(name).detach().clone() for name in names)]
    assert len(given) == 4 and torch.autograd.gradcheck(attend, [each.requires_grad_() for each in given])


def test_equal_maps_with_weight_one_cancel():
    """The norm of a context of zeros is zero; one of rounding errors would be as large as any other."""
    core = build_core("differential", SIZE, H, {"lambda_init": 0.0}).double()
    torch.nn.init.zeros_(core.lambda_q)
    with torch.no_grad():
        core.lambda_q[0], core.lambda_k[0] = 1.0, math.log(2) / (D // 2)  # exp(..) = 2: lambda = 1
    given = inputs(PADDED)
    given.q, given.k = (torch.cat([x[..., : D // 2]] * 2, dim=-1) for x in (given.q, given.k))
    assert core(given)[0].abs().amax() < 1e-6


def test_the_start_outlasts_espnets_initialisation():
    module = build_attention("differential", 256, 2)
    initialize(module, "xavier_uniform")
    core = module.core
    assert torch.equal(core.norm, torch.ones(128)) and set(dict(core.named_parameters())) == {
        "lambda_q",
        "lambda_k",
        "norm",
    }
    for vectors in (core.lambda_q, core.lambda_k):
        assert 0.08 < float(vectors.detach().std()) < 0.12
    assert "core.halves" not in module.state_dict()


@pytest.mark.parametrize(
    ("size", "options", "text"),
    [
        (SIZE, {"lambda_init": 1.0}, "lambda_init must be at least 0 and below 1, but is 1.0"),
        (6, {}, "heads of width 3 have no halves; choose a number of heads for an even width"),
    ],
)
def test_invalid_lambda_and_odd_head_width_are_refused(size, options, text):
    with pytest.raises((OptionError, ValueError), match=text):
        build_core("differential", size, H, options)
