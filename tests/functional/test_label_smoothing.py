import pytest
import torch

from espnet_diverse.functional import label_smoothing
from espnet_diverse.functional.label_smoothing import smoothed_divergence


def naive(scores, targets, smoothing):
    rows = []
    for x, target in zip(scores, targets, strict=True):
        q = torch.full_like(x, smoothing / (len(x) - 1))
        q[target] = 1 - smoothing
        terms = [q_k * (q_k.log() - p_k) for q_k, p_k in zip(q, x.log_softmax(0), strict=True) if q_k]
        rows.append(sum(terms))
    return torch.stack(rows)


@pytest.fixture(params=[1, 14, 2**17])
def scores(request, monkeypatch):
    """Scores of five rows, which are worked on one by one, in pairs, or all at once."""
    monkeypatch.setattr(label_smoothing, "CACHED", request.param)
    return torch.randn(5, 7, generator=torch.manual_seed(1), dtype=torch.float64) * 3


TARGETS = torch.tensor([0, 6, 3, 3, 1])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_it_is_the_divergence(scores, smoothing):
    expected = naive(scores, TARGETS, smoothing)
    torch.testing.assert_close(smoothed_divergence(scores, TARGETS, smoothing), expected, atol=1e-12, rtol=0)


def test_it_is_zero_at_the_smoothed_target():
    q = torch.full((1, 7), 0.1 / 6, dtype=torch.float64)
    q[0, 2] = 0.9
    assert smoothed_divergence(q.log() + 5, torch.tensor([2]), 0.1).abs().item() < 1e-12


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradient(scores, smoothing):
    assert torch.autograd.gradcheck(lambda x: smoothed_divergence(x, TARGETS, smoothing), scores.requires_grad_())


def test_half_scores_are_summed_in_float32(scores):
    half = scores.to(torch.bfloat16).requires_grad_()
    loss = smoothed_divergence(half, TARGETS, 0.1)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, naive(half.detach().float(), TARGETS, 0.1), atol=1e-5, rtol=1e-5)
    loss.sum().backward()
    assert half.grad.dtype == torch.bfloat16


def test_no_rows():
    scores = torch.zeros(0, 7, requires_grad=True)
    loss = smoothed_divergence(scores, torch.zeros(0, dtype=torch.long), 0.1)
    loss.sum().backward()
    assert loss.shape == (0,) and scores.grad.shape == (0, 7)


@pytest.mark.parametrize(("smoothing", "classes"), [(1.0, 7), (-0.1, 7), (0.1, 1)])
def test_invalid_smoothing_or_number_of_classes_is_refused(smoothing, classes):
    with pytest.raises(ValueError, match=f"smoothing {smoothing} of {classes} classes: give 0 <= smoothing < 1"):
        smoothed_divergence(torch.zeros(1, classes), torch.zeros(1, dtype=torch.long), smoothing)
