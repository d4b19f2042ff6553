"""Sums over posteriors and their gradients in closed form equal the differentiable operations."""

import pytest
import torch

from espnet_diverse.functional.posterior_losses import Evidence, HeadPairCost, PairwiseSquares

B, H, C, T = 2, 3, 4, 5


@pytest.fixture
def joint():
    torch.manual_seed(0)
    return (3 * torch.randn(B, H, C, T, dtype=torch.double)).requires_grad_()


@pytest.fixture
def valid():
    return (torch.arange(T) < torch.tensor([[[5]], [[3]]])).double()  # (B, 1, T)


def same(one, other, inputs):
    """Values and gradients agree."""
    torch.testing.assert_close(one, other)
    for ours, theirs in zip(
        *(torch.autograd.grad(y.sum(), inputs, retain_graph=True) for y in (one, other)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_evidence_is_the_logarithm_of_the_sum(joint):
    p = joint.softmax(-2).detach()
    same(Evidence.apply(joint, p), joint.logsumexp(-2), [joint])
    far = torch.tensor([[-4000.0], [-5000.0]])
    assert Evidence.apply(far, far.softmax(-2)).item() == -4000


@pytest.mark.parametrize("lead", [(), (2,)], ids=["module", "modules"])
def test_costs_of_pairs_of_heads(joint, valid, lead):
    joint = joint.expand(*lead, *joint.shape)
    a, b = (joint - 1e9 * (1 - valid.unsqueeze(-2))).softmax(-1), joint.softmax(-2)
    pairs = torch.einsum("...hct,...gct->...hgt", a, b)
    other = 1 - torch.eye(H, dtype=torch.double).unsqueeze(-1)
    expected = -(torch.log1p(-pairs) * other * valid.unsqueeze(-2)).sum()
    same(HeadPairCost.apply(a, b, valid), expected, [joint])


def test_a_certain_pair_has_a_bounded_cost_without_gradient():
    a = torch.ones(2, 1, 1, dtype=torch.double, requires_grad=True)
    cost = HeadPairCost.apply(a, a.detach(), torch.ones(1, 1, dtype=torch.double))
    assert cost.item() == pytest.approx(-2 * torch.tensor(1e-6).log().item(), rel=1e-6)
    assert torch.autograd.grad(cost, a)[0].abs().max() == 0


def test_squares_of_products_of_posteriors(joint, valid):
    p = joint.softmax(-2)
    diagonal, between = torch.rand(2, B, 1, 1, dtype=torch.double)
    gram = (p.transpose(-2, -1) @ p) * valid.unsqueeze(-2) * valid.unsqueeze(-1)
    eye = torch.eye(T, dtype=torch.double)
    own = ((gram - valid.unsqueeze(-1)) * eye).square().sum((-2, -1), keepdim=True)
    other = (gram * (1 - eye)).square().sum((-2, -1), keepdim=True)
    expected = (diagonal.unsqueeze(1) * own + between.unsqueeze(1) * other).sum()
    weights = diagonal.unsqueeze(1), between.unsqueeze(1)
    same(PairwiseSquares.apply(p, valid.unsqueeze(-2), *weights), expected, [joint])


def test_gradcheck(joint, valid):
    weights = torch.ones(1, 1, 1, dtype=torch.double)
    assert torch.autograd.gradcheck(lambda x: Evidence.apply(x, x.softmax(-2).detach()), (joint,))
    assert torch.autograd.gradcheck(lambda x: HeadPairCost.apply(x.softmax(-1), x.softmax(-2), valid), (joint,))
    squares = lambda x: PairwiseSquares.apply(x.softmax(-2), valid.unsqueeze(-2), weights, weights)  # noqa: E731
    assert torch.autograd.gradcheck(squares, (joint,))
