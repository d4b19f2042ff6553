"""Directions of SVGD and SPOS against loops and golden arrays; see tests/golden/methods/README.md."""

import numpy as np
import pytest
import torch
from references import repulsion as oracle
from references.golden import golden

from espnet_diverse.functional.particles import (
    cosine_direction,
    noise_std,
    rbf_kernel,
    repulsion_matrix,
    spos_direction,
    svgd_direction,
)

GOLDEN = golden("svgd_spos")
each_bandwidth = pytest.mark.parametrize("bandwidth", ["paper", "official"])


def close(ours, expected):
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


@each_bandwidth
@pytest.mark.parametrize("particles", [2, 4, 5, 8])
def test_equals_the_golden_arrays(bandwidth, particles):
    x, grad = GOLDEN[f"M{particles}_X"], GOLDEN[f"M{particles}_gradU"]
    expected = {name: GOLDEN[f"M{particles}_{bandwidth}_{name}"] for name in ("h", "K", "repulsion", "phi_alpha1")}
    kernel, h = rbf_kernel(x, bandwidth)
    close(h, expected["h"])
    close(kernel, expected["K"])
    close(repulsion_matrix(kernel, h) @ x, expected["repulsion"])
    close(svgd_direction(x, grad, bandwidth=bandwidth), expected["phi_alpha1"])
    weak = svgd_direction(x, grad, 0.01, bandwidth)
    close(weak, GOLDEN[f"M{particles}_{bandwidth}_phi_alpha001"])
    close(-0.1 * weak, GOLDEN[f"M{particles}_{bandwidth}_newgrad_eps01_alpha001"])
    drift = spos_direction(x, grad, 0.01, bandwidth, 10.0)
    close(drift, GOLDEN[f"M{particles}_{bandwidth}_spos_drift_alpha001_beta10"])


def test_the_noise_has_the_golden_deviation():
    std = noise_std(float(GOLDEN["eps"]), float(GOLDEN["beta"]))
    assert std == pytest.approx(float(GOLDEN["spos_noise_std_in_phi"]), abs=1e-10)
    assert 0.1 * std == pytest.approx(float(GOLDEN["spos_noise_std_in_theta"]), abs=1e-10)
    assert noise_std(0.1, 10.0, 400) == std / 400


@pytest.mark.parametrize("bandwidth", ["paper", "official", 0.7])
@pytest.mark.parametrize("mode", ["absolute", "relative"])
def test_equals_loops_for_each_set_of_particles(draw, bandwidth, mode):
    x, grad, noise = (draw.normal(3, 5, 4).detach() for _ in range(3))
    ours = svgd_direction(x, grad, 0.3, bandwidth, mode)
    for one, particles, slopes in zip(ours, x.numpy(), grad.numpy(), strict=True):
        np.testing.assert_allclose(one, oracle.svgd(particles, slopes, 0.3, bandwidth, mode == "relative"), atol=1e-12)
    noisy = spos_direction(x, grad, 0.3, bandwidth, 4.0, noise, mode)
    torch.testing.assert_close(noisy, ours - grad / 4 + noise)


def test_the_repulsion_by_a_narrow_kernel_matches_double_precision(draw):
    """The kernel of two particles is then lost beside that of a particle with itself, which repels nothing."""
    x, grad = draw.normal(4, 64).detach(), draw.normal(4, 64).detach()
    exact = svgd_direction(x, grad, bandwidth=5.0, alpha_mode="relative")
    found = svgd_direction(x.float(), grad.float(), bandwidth=5.0, alpha_mode="relative")
    torch.testing.assert_close(found.double(), exact, atol=1e-4, rtol=1e-4)


def test_the_repulsion_is_the_sum_of_the_kernels_gradients(draw):
    x = draw.normal(4, 3)
    fixed = x.detach()
    kernel, h = rbf_kernel(fixed)
    for i in range(4):
        of_all = torch.exp(-(x - fixed[i]).square().sum(-1) / h)  # k(x_j, x_i) for each j
        (slopes,) = torch.autograd.grad(of_all.sum(), x)
        torch.testing.assert_close((repulsion_matrix(kernel, h) @ fixed)[i], slopes.sum(0))


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("mode", ["absolute", "relative"])
def test_the_direction_of_cosines_equals_loops(draw, smooth, mode):
    """Equation (14) by autograd, a pair at a time."""
    x, grad = draw.normal(2, 4, 3), draw.normal(2, 4, 3).detach()
    ours = cosine_direction(x.detach(), grad, 0.3, smooth, mode)
    for one, slopes, found in zip(x, grad, ours, strict=True):
        fixed = one.detach()
        toward, away = torch.zeros(4, 3).double(), torch.zeros(4, 3).double()
        for i in range(4):
            for j in range(4):
                cosine = torch.cosine_similarity(fixed[i], one[j], dim=0)
                weight = cosine.detach() if smooth else 4.0 * (i == j)
                toward[i] -= weight * slopes[j] / 4
                if i != j:
                    away[i] += torch.autograd.grad(cosine, one)[0][j] / 4
        weight = 0.3 if mode == "absolute" else 0.3 * toward.norm() / away.norm()
        torch.testing.assert_close(found, toward + weight * away)


def test_cosines_of_small_particles_repel_in_the_inverse_of_their_size(draw):
    """Weights are shorter than 1 after initialisation. Their size leaves a cosine as it is and divides its gradient."""
    x = draw.normal(4, 3).detach()
    still = torch.zeros_like(x)
    torch.testing.assert_close(cosine_direction(x / 64, still), 64 * cosine_direction(x, still))


def test_a_step_along_the_direction_of_cosines_lowers_them(draw):
    x = draw.normal(5, 4).detach() + 1.0
    moved = x + 0.05 * cosine_direction(x, torch.zeros_like(x))

    def mean(x):
        unit = x / x.norm(dim=-1, keepdim=True)
        return (unit @ unit.T).mean()

    assert mean(moved) < mean(x)
    x[2] = 0.0
    assert torch.isfinite(phi := cosine_direction(x, torch.zeros_like(x))).all() and not phi[2].any()


def test_gradients(draw):
    assert torch.autograd.gradcheck(lambda x, g: svgd_direction(x, g, 0.5), (draw.normal(3, 2), draw.normal(3, 2)))


def test_particles_move_apart_and_one_descends():
    x, still = torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.zeros(2, 2)
    phi = svgd_direction(x, still)
    assert phi[0, 0] < 0 < phi[1, 0] and not phi[:, 1].any()
    one = torch.tensor([[3.0, -1.0]])
    for bandwidth in ("paper", "official", 2.0):
        for alone in (one, one.expand(2, 3, 1, 2)):
            torch.testing.assert_close(svgd_direction(alone, alone, 7.0, bandwidth), -alone)


@each_bandwidth
@pytest.mark.parametrize("mode", ["absolute", "relative"])
def test_equal_particles_are_not_repelled(bandwidth, mode, draw):
    x, grad = torch.ones(4, 3, dtype=torch.float64), draw.normal(4, 3).detach()
    expected = -grad.mean(0).expand(4, -1)
    torch.testing.assert_close(svgd_direction(x, grad, 5.0, bandwidth, mode), expected)


def test_distances_of_close_particles_are_exact_in_single_precision():
    x = torch.tensor([[1000.0], [1000.5], [1001.0]])
    kernel, h = rbf_kernel(x, 1.0)
    torch.testing.assert_close(kernel[0], torch.tensor([1.0, np.exp(-0.25), np.exp(-1.0)], dtype=torch.float32))
    assert h.shape == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bandwidth": "median"}, "unknown bandwidth 'median'; known: paper official, or a number above 0"),
        ({"bandwidth": 0.0}, "bandwidth 0.0 is not possible; give a number above 0"),
        ({"alpha_mode": "auto"}, "unknown alpha_mode 'auto'; known: absolute relative"),
    ],
)
def test_invalid_options_are_refused(options, said):
    x = torch.zeros(2, 2)
    directions = [svgd_direction, spos_direction] + [cosine_direction] * ("alpha_mode" in options)
    for direction in directions:
        with pytest.raises(ValueError, match=said):
            direction(x, x, **options)
