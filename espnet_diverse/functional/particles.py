"""Particles that repel each other: directions of SVGD and SPOS for the heads of an attention.

An et al. 2020, "Repulsive Attention: Rethinking Multi-head Attention as Bayesian Inference", EMNLP (the
repulsive-attention paper); SVGD is from Liu and Wang 2016, SPOS from Zhang et al. 2018. The M heads of an attention are
particles x_i of a posterior distribution, g_i is the gradient of its negative log density at x_i.

    k(x, y) = exp(-||x - y||^2 / h),  h = med^2 / log M               med: median distance of two particles (B.2)
    phi_i = 1/M sum_j [-k(x_j, x_i) g_j + alpha grad_j k(x_j, x_i)]                               (4), SVGD
    grad_j k(x_j, x_i) = 2/h k(x_j, x_i) (x_i - x_j)                  the repulsion; h is held constant
    phi_i = (4) - g_i / beta + sqrt(2 / (beta epsilon)) xi_i,  xi_i ~ N(0, I)                     (5), SPOS
    phi_i = (4) with k(x, y) = cos(x, y)                              (14), which adapts the penalty of cosines

A step of size epsilon moves x_i to x_i + epsilon phi_i, so an optimizer receives -epsilon phi_i as the gradient.
Where particles have leading dimensions (...), each of their entries is a separate set of particles.
Cost: O(M^2 D) for M particles of D numbers.
"""

import math

import torch
from torch import Tensor

BANDWIDTHS = ("paper", "official")
ALPHA_MODES = ("absolute", "relative")


def svgd_direction(
    x: Tensor, grad: Tensor, alpha: float = 1.0, bandwidth: str | float = "paper", alpha_mode: str = "absolute"
) -> Tensor:
    """Compute the direction phi of SVGD, equation (4); x + epsilon phi descends. One particle gives -grad.

    Args:
        x: Particles (..., M, D).
        grad: Gradient of the negative log density at each particle, (..., M, D).
        alpha: Weight of the repulsion.
        bandwidth: "paper" is h = med^2 / log M; "official", of the released code, is the median of all M^2 squared
            distances, including each particle's to itself, over log(M + 1); a number is h itself.
        alpha_mode: "absolute", or "relative", in which the repulsion has alpha times the norm of the other term, over
            all particles of a set, for any scale of the loss.

    Returns:
        phi (..., M, D).

    Raises:
        ValueError: `bandwidth` or `alpha_mode` is unknown, or the bandwidth is not above 0.
    """
    kernel, h = rbf_kernel(x, bandwidth)
    return _direction(x, grad, kernel, repulsion_matrix(kernel, h), alpha, alpha_mode)


def cosine_direction(
    x: Tensor, grad: Tensor, alpha: float = 1.0, smooth: bool = True, alpha_mode: str = "absolute"
) -> Tensor:
    """Compute the direction phi of equation (14), in which the kernel is the cosine of two particles.

    Args:
        x: Particles (..., M, D). One of length 0 is neither repelled nor repels.
        grad: Gradient of the negative log density at each particle, (..., M, D).
        alpha: Weight of the repulsion; the paper has none.
        smooth: Whether the kernel also weighs the gradients, as in the last row of Table 11. Without it ("i -> j"
            there) each particle has its own gradient, as under a penalty of cosines, and only the repulsion follows
            (14).
        alpha_mode: As in `svgd_direction`.

    Returns:
        phi (..., M, D).

    Raises:
        ValueError: `alpha_mode` is unknown.
    """
    norm = x.norm(dim=-1, keepdim=True)
    inverse = torch.where(norm > 0, 1 / norm, 0.0)  # (..., M, 1)
    unit = x * inverse
    cosine = unit @ unit.transpose(-2, -1)
    push = torch.diag_embed(inverse.squeeze(-1) * inverse.sum(-2)) - cosine * inverse.square().transpose(-2, -1)
    identity = torch.eye(x.size(-2), dtype=x.dtype, device=x.device) * x.size(-2)
    return _direction(x, grad, cosine if smooth else identity, push, alpha, alpha_mode)


def _direction(x: Tensor, grad: Tensor, kernel: Tensor, push: Tensor, alpha: float, alpha_mode: str) -> Tensor:
    """Return (alpha push x - kernel grad) / M with matrices (..., M, M), of which push x is the repulsion."""
    if alpha_mode not in ALPHA_MODES:
        raise ValueError(f"unknown alpha_mode {alpha_mode!r}; known: {' '.join(ALPHA_MODES)}")
    weight: float | Tensor = alpha
    if alpha_mode == "relative":
        norm, wanted = (
            (matrix @ vectors).norm(dim=(-2, -1), keepdim=True) for matrix, vectors in ((push, x), (kernel, grad))
        )
        weight = alpha * torch.where(norm > 0, wanted / norm, 0.0)
    # Scalars multiply the small matrices: a particle has thousands of numbers.
    share = 1 / x.size(-2)
    return (weight * share * push) @ x - (share * kernel) @ grad


def spos_direction(
    x: Tensor,
    grad: Tensor,
    alpha: float = 1.0,
    bandwidth: str | float = "paper",
    beta: float = 1.0,
    noise: Tensor | None = None,
    alpha_mode: str = "absolute",
) -> Tensor:
    """Compute the direction phi of SPOS, equation (5); x + epsilon phi descends.

    Args:
        x: Particles (..., M, D).
        grad: Gradient of the negative log density at each particle, (..., M, D).
        alpha: Weight of the repulsion.
        bandwidth: As in `svgd_direction`.
        beta: Inverse temperature; the larger, the closer to SVGD.
        noise: The last term of (5), (..., M, D), of standard deviation `noise_std(epsilon, beta)`; None is no noise.
        alpha_mode: As in `svgd_direction`.

    Returns:
        phi (..., M, D).

    Raises:
        ValueError: As for `svgd_direction`.
    """
    drift = svgd_direction(x, grad, alpha, bandwidth, alpha_mode) - grad / beta
    return drift if noise is None else drift + noise


def noise_std(epsilon: float, beta: float = 1.0, num_data: int = 1) -> float:
    """Return the standard deviation of the noise of (5) in phi, or of SGLD with beta 1.

    (5) is for the sum of the loss over the data. If `grad` is of the mean over `num_data` samples, phi as a whole is
    divided by their number, and so is the noise.
    """
    return math.sqrt(2 / (beta * epsilon)) / num_data


def rbf_kernel(x: Tensor, bandwidth: str | float = "paper") -> tuple[Tensor, Tensor]:
    """Compute k(x_j, x_i) of all particles x (..., M, D) -> (..., M, M), and the bandwidth h (...).

    One particle has no distance to another, and more may be so equal that the median is 0. h is then infinite: the
    kernel is 1, and nothing is repelled.

    Raises:
        ValueError: The rule of the bandwidth is unknown, or the bandwidth is not above 0.
    """
    distance = _distances(x)
    h = _bandwidth(distance, bandwidth)
    return torch.exp(-distance.square() / h[..., None, None]), h


def repulsion_matrix(kernel: Tensor, h: Tensor) -> Tensor:
    """Compute R (..., M, M), with which (R x)_i = sum_j 2/h k(x_j, x_i) (x_i - x_j): kernel (..., M, M), h (...)."""
    off_diagonal = kernel - torch.diag_embed(kernel.diagonal(dim1=-2, dim2=-1))  # added to 1, small ones are lost
    return 2 / h[..., None, None] * (torch.diag_embed(off_diagonal.sum(-1)) - off_diagonal)


def _distances(x: Tensor) -> Tensor:
    """Particles (..., M, D) -> distances (..., M, M).

    From differences: squares from products would lose the distances of close particles in float32. `pdist` takes a
    tenth of the time of `cdist`, which also computes every distance twice, but takes one set at a time.
    """
    pairs = torch.stack([torch.pdist(one) for one in x.flatten(0, -3)]) if x.dim() > 2 else torch.pdist(x)
    first, second = torch.triu_indices(x.size(-2), x.size(-2), 1, device=x.device)
    upper = x.new_zeros(*x.shape[:-1], x.size(-2))
    upper[..., first, second] = pairs.view(*x.shape[:-2], -1)
    return upper + upper.transpose(-2, -1)


def _bandwidth(distance: Tensor, rule: str | float) -> Tensor:
    """Distances (..., M, M) -> h (...)."""
    particles = distance.size(-1)
    if not isinstance(rule, str):
        if not rule > 0:
            raise ValueError(f"bandwidth {rule} is not possible; give a number above 0")
        return distance.new_full(distance.shape[:-2], rule)
    if rule not in BANDWIDTHS:
        raise ValueError(f"unknown bandwidth {rule!r}; known: {' '.join(BANDWIDTHS)}, or a number above 0")
    if particles == 1:
        return distance.new_full(distance.shape[:-2], torch.inf)
    if rule == "official":
        h = distance.square().flatten(-2).quantile(0.5, dim=-1) / math.log(particles + 1)
    else:
        first, second = torch.triu_indices(particles, particles, 1, device=distance.device)
        h = distance[..., first, second].quantile(0.5, dim=-1).square() / math.log(particles)
    return torch.where(h > 0, h, torch.inf)
