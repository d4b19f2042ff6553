"""Flows of sequences: naive loops, inverses, log-determinants against Jacobians, padding, finite differences."""

import math

import pytest
import torch
from torch.distributions import Normal

from espnet_diverse.functional.flows import (
    actnorm,
    actnorm_inverse,
    affine_coupling,
    affine_coupling_inverse,
    invertible_linear,
    invertible_linear_inverse,
    normal_log_density,
)

WIDTH, GROUPS = 8, 2
VALID = torch.tensor([[True, True, True], [True, False, False]])


def net_of(first, second, valid):
    """A coupling net that mixes all valid positions, as attention does, with scales on both sides of 1."""

    def net(x):
        x = torch.tanh(x @ first) + torch.sin(x @ first).masked_fill(~valid.unsqueeze(-1), 0).sum(1, keepdim=True)
        return torch.tanh(x @ second), x @ second.flip(0)

    return net


@pytest.fixture(params=["actnorm", "invertible_linear", "affine_coupling"])
def flow(request, draw):
    """The parameters of a flow; and the flow and its inverse, called with (x, valid, *parameters)."""
    half = WIDTH // 2
    if request.param == "actnorm":
        pair = (lambda x, v, s, b: actnorm(x, s, b, v), lambda y, v, s, b: actnorm_inverse(y, s, b, v))
        return (draw.normal(WIDTH), draw.normal(WIDTH)), *pair
    if request.param == "invertible_linear":
        pair = (lambda x, v, w: invertible_linear(x, w, v), lambda y, v, w: invertible_linear_inverse(y, w, v))
        return (draw.normal(WIDTH // GROUPS, WIDTH // GROUPS),), *pair
    pair = (
        lambda x, v, f, s: affine_coupling(x, net_of(f, s, v), v),
        lambda y, v, f, s: affine_coupling_inverse(y, net_of(f, s, v), v),
    )
    return (draw.normal(half, half), draw.normal(half, half)), *pair


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_the_inverse_inverts(flow, draw):
    parameters, forward, inverse = flow
    x = draw.normal(2, 3, WIDTH)
    y, _ = forward(x, VALID, *parameters)
    back = inverse(y, VALID, *parameters)
    close(back, x.masked_fill(~VALID.unsqueeze(-1), 0))
    close(forward(back, VALID, *parameters)[0], y)
    assert (y[0] - x[0]).abs().max() > 0.1


def test_the_log_determinant_matches_the_jacobian(flow, draw):
    parameters, forward, _ = flow
    for length in (3, 1):
        x, valid = draw.normal(1, length, WIDTH), torch.ones(1, length, dtype=torch.bool)
        jacobian = torch.autograd.functional.jacobian(lambda x, valid=valid: forward(x, valid, *parameters)[0], x)
        expected = torch.linalg.slogdet(jacobian.reshape(x.numel(), x.numel())).logabsdet
        found = forward(x, valid, *parameters)[1]
        close(found, expected.unsqueeze(0))
        assert found.abs() > 0.01


def test_padding_changes_nothing_and_is_zero(flow, draw):
    parameters, forward, inverse = flow
    x = draw.normal(2, 3, WIDTH)
    other = torch.where(VALID.unsqueeze(-1), x, 100.0)
    (y, log_determinant), (changed, same) = (forward(each, VALID, *parameters) for each in (x, other))
    close(changed, y)
    close(same, log_determinant)
    close(inverse(other, VALID, *parameters), inverse(x, VALID, *parameters))
    assert (y[~VALID] == 0).all() and (inverse(x, VALID, *parameters)[~VALID] == 0).all()
    alone, its = forward(x[1:, :1], VALID[1:, :1], *parameters)
    close(y[1:, :1], alone)
    close(log_determinant[1:], its)


def test_gradcheck(flow, draw):
    parameters, forward, inverse = flow
    x = draw.normal(2, 3, WIDTH)
    assert torch.autograd.gradcheck(lambda x, *p: forward(x, VALID, *p), (x, *parameters))
    assert torch.autograd.gradcheck(lambda y, *p: inverse(y, VALID, *p), (x, *parameters))


def test_actnorm_equals_loops(draw):
    x, log_scale, bias = draw.normal(1, 3, 4), draw.normal(4), draw.normal(4)
    y, log_determinant = actnorm(x, log_scale, bias, VALID[:1])
    rest = log_scale.tolist(), bias.tolist()
    expected = [[math.exp(s) * value + b for value, s, b in zip(row, *rest, strict=True)] for row in x[0].tolist()]
    close(y[0].detach(), torch.tensor(expected, dtype=torch.float64))
    assert math.isclose(log_determinant.item(), 3 * sum(log_scale.tolist()), rel_tol=1e-10)


def test_a_group_takes_every_gth_feature(draw):
    x, weight = draw.normal(1, 3, WIDTH), draw.normal(WIDTH // GROUPS, WIDTH // GROUPS)
    y, _ = invertible_linear(x, weight, VALID[:1])
    for g in range(GROUPS):
        for t in range(3):
            close(y[0, t, g::GROUPS], weight @ x[0, t, g::GROUPS])


def test_a_coupling_keeps_one_half_and_scales_the_other(draw):
    x, first, second = draw.normal(1, 3, 4), draw.normal(2, 2), draw.normal(2, 2)
    net = net_of(first, second, VALID[:1])
    y, _ = affine_coupling(x, net, VALID[:1])
    log_scale, bias = net(x[..., :2])
    close(y[..., :2], x[..., :2])
    for t in range(3):
        for i in range(2):
            close(y[0, t, 2 + i], log_scale[0, t, i].exp() * x[0, t, 2 + i] + bias[0, t, i])


def test_the_normal_density_sums_over_valid_positions(draw):
    x, mean, log_var = (draw.normal(2, 3, 4) for _ in range(3))
    density = Normal(mean, (log_var / 2).exp()).log_prob(x)
    expected = torch.stack([density[row, : VALID[row].sum()].sum() for row in range(2)])
    close(normal_log_density(x, mean, log_var, VALID), expected)
    assert torch.autograd.gradcheck(lambda *given: normal_log_density(*given, VALID), (x, mean, log_var))
