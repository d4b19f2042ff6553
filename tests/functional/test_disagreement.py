"""Disagreement of heads against loops and golden arrays; see tests/golden/methods/README.md."""

import numpy as np
import pytest
import torch
from references import repulsion as oracle
from references.golden import golden

from espnet_diverse.functional.disagreement import (
    disagreement,
    frobenius,
    frobenius_of_queries,
    position_disagreement,
)


def close(ours, expected):
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


def test_equal_the_golden_arrays():
    arrays = golden("regularisers")
    mask = torch.arange(6) < arrays["lengths"].unsqueeze(1)
    for name, heads in (("subspace", arrays["V"]), ("output", arrays["O"])):
        close(disagreement(heads), arrays[f"{name}_flat"])
        close(disagreement(heads, per="position"), arrays[f"{name}_token"])
        close(disagreement(heads, mask), arrays[f"{name}_flat_masked"])
    close(position_disagreement(arrays["A"]), arrays["position"])
    close(position_disagreement(arrays["A"], mask), arrays["position_masked"])
    close(frobenius(arrays["frob_A"]), arrays["frobenius"])


@pytest.mark.parametrize("per", ["sequence", "position"])
def test_equal_loops(draw, per):
    lengths = torch.tensor([5, 3])
    mask = torch.arange(5) < lengths.unsqueeze(1)
    heads, weights = draw.normal(2, 4, 5, 3).detach(), draw.posterior(2, 4, 5, 6).detach()
    for sample, valid in enumerate(lengths.tolist()):
        alike = oracle.disagreement(heads[sample].numpy(), valid, per)
        assert disagreement(heads, mask, per)[sample].item() == pytest.approx(alike, abs=1e-12)
        attended = oracle.position_disagreement(weights[sample].numpy(), valid)
        assert position_disagreement(weights, mask)[sample].item() == pytest.approx(attended, abs=1e-12)
        rows = [oracle.frobenius(weights[sample, :, t].numpy()) for t in range(valid)]
        assert frobenius_of_queries(weights, mask)[sample].item() == pytest.approx(np.mean(rows), abs=1e-12)


@pytest.mark.parametrize("per", ["sequence", "position"])
def test_equal_and_orthogonal_heads(per):
    same = torch.randn(1, 1, 3, 4).expand(2, 5, 3, 4)
    torch.testing.assert_close(disagreement(same, per=per), torch.full((2,), -1.0))
    apart = torch.eye(4).view(1, 4, 1, 4).expand(1, 4, 3, 4)
    torch.testing.assert_close(disagreement(apart, per=per), torch.tensor([-1 / 4]))
    torch.testing.assert_close(frobenius(torch.eye(3, 5)), torch.tensor(0.0))


def test_gradients_also_of_padding_and_of_zeros(draw):
    heads, weights = draw.normal(2, 2, 3, 2), draw.posterior(2, 2, 3, 2)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    for per in ("sequence", "position"):
        assert torch.autograd.gradcheck(lambda x, per=per: disagreement(x, mask, per), (heads,))
        zeros = torch.zeros(1, 2, 3, 2, requires_grad=True)
        assert torch.autograd.grad(disagreement(zeros, per=per).sum(), zeros)[0].isfinite().all()
    assert torch.autograd.gradcheck(lambda a: position_disagreement(a, mask), (weights,))
    assert torch.autograd.gradcheck(lambda a: frobenius_of_queries(a, mask), (weights,))


def test_a_sample_without_positions_adds_nothing():
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    heads, weights = torch.randn(1, 2, 3, 4), torch.rand(1, 2, 3, 4)
    assert not disagreement(heads, nothing).any() and not disagreement(heads, nothing, "position").any()
    assert not position_disagreement(weights, nothing).any() and not frobenius_of_queries(weights, nothing).any()


def test_an_unknown_value_of_per_is_refused():
    with pytest.raises(ValueError, match="unknown per 'token'; known: sequence position"):
        disagreement(torch.ones(1, 2, 2, 2), per="token")
