"""Mixtures of Gaussians against loops."""

import math
from contextlib import contextmanager

import pytest
import torch
from references import sdma as oracle
from references.posteriors import responsibility
from torch.utils._python_dispatch import TorchDispatchMode

from espnet_diverse.functional.mixture import VARIANCE_FLOOR, log_density, posterior


@pytest.mark.parametrize("groups", [1, 3])
def test_equals_loops_for_own_and_shared_mixtures(draw, groups):
    x, mixture = draw.normal(2, 3, 5, 4), draw.mixture(groups, 6, 4)
    density, p = log_density(x, *mixture), responsibility(x, *mixture)
    assert density.shape == p.shape == (2, 3, 5, 6)
    for b in range(2):
        for h in range(3):
            own = [part[h % groups].detach().numpy() for part in mixture]
            token = x[b, h].detach().numpy()
            torch.testing.assert_close(density[b, h], torch.tensor(oracle.log_density(token, *own)))
            torch.testing.assert_close(p[b, h], torch.tensor(oracle.responsibility(token, *own)))


@pytest.mark.parametrize("function", [log_density, responsibility])
@pytest.mark.parametrize("groups", [1, 2])
def test_gradients(draw, function, groups):
    assert torch.autograd.gradcheck(function, (draw.normal(2, 2, 3, 3), *draw.mixture(groups, 4, 3)))


def test_one_token_and_no_leading_dimension(draw):
    x = draw.normal(1, 3)
    log_prior, mean, log_var = (part[0] for part in draw.mixture(1, 2, 3))
    expected = oracle.log_density(*(part.detach().numpy() for part in (x, log_prior, mean, log_var)))
    torch.testing.assert_close(log_density(x, log_prior, mean, log_var), torch.tensor(expected))


def test_head_slices_of_a_wider_tensor(draw):
    wide, mixture = draw.normal(2, 5, 3, 4), draw.mixture(3, 6, 4)
    sliced = wide.transpose(1, 2)
    torch.testing.assert_close(log_density(sliced, *mixture), log_density(sliced.contiguous(), *mixture))


def test_tiny_variances_are_floored_and_their_gradients_finite(draw):
    x = draw.normal(2, 5, 3)
    log_prior, mean, _ = draw.mixture(2, 4, 3)
    tiny = torch.full((2, 4, 3), -200.0, dtype=torch.float64, requires_grad=True)
    floor = torch.full_like(tiny, math.log(VARIANCE_FLOOR))
    density = log_density(x, log_prior, mean, tiny)
    torch.testing.assert_close(density, log_density(x, log_prior, mean, floor))
    gradients = torch.autograd.grad(posterior(density).square().sum(), (x, log_prior, mean, tiny))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_single_precision_follows_double(draw):
    inputs = draw.normal(2, 3, 7, 64), *draw.mixture(3, 8, 64)
    single = [part.detach().float() for part in inputs]
    copies = [part.clone() for part in single]
    torch.testing.assert_close(responsibility(*single).double(), responsibility(*inputs), atol=1e-4, rtol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(single, copies, strict=True)), "an input was changed in place"


def test_no_product_of_distances_may_use_tf32(draw, monkeypatch):
    products, protected = [], []

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if "bmm" in function.__name__:
                products.append(bool(protected))
            return function(*args, **(kwargs or {}))

    @contextmanager
    def protect(x):
        protected.append(x)
        yield
        protected.pop()

    monkeypatch.setattr("espnet_diverse.functional.mixture.without_tf32", protect)
    with Products():
        log_density(draw.normal(2, 3, 5, 4), *draw.mixture(3, 6, 4)).sum().backward()
    assert products == [True] * 6
