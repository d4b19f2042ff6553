"""The equations of variational autoencoders with Gaussian posteriors.

Kingma and Welling 2014, "Auto-encoding variational Bayes", with z of Z units, eps ~ N(0, I) and z = mu + sigma eps:

    log p(x) >= E_q [log p(x | z)] - KL(q(z | x) || N(0, I)),   q(z | x) = N(mu(x), sigma(x)^2)             (1)
    KL = sum_d KL_d,   KL_d = (sigma_d^2 + mu_d^2 - 1 - log sigma_d^2) / 2                                  (2)

Free bits (Kingma et al. 2016, "Improved variational inference with inverse autoregressive flow", section C.8), a weight
that rises once (Bowman et al. 2016, "Generating sentences from a continuous space", section 3.1) or in C cycles (Fu et
al. 2019, "Cyclical annealing schedule", equations (6) and (7)), active units and the importance-weighted bound (Burda
et al. 2016, "Importance weighted autoencoders", section 5.2 and equation (8)):

    sum_d max(lambda, mean over sentences of KL_d)                                                          (3)
    weight(t) = min(1, (t mod T/C) / (R T/C)) for t < T updates, else 1                                     (4)
    unit d is active if Var_x mu_d(x) > 0.01                                                                (5)
    log p(x) >= E log 1/K sum_k p(x | z_k) p(z_k) / q(z_k | x)                                              (6)

Numbers are nats. Mean and log_var = log sigma^2 have any shape (..., Z).
"""

import math

import torch
from torch import Tensor

#: Variance of the posterior mean above which a unit is active.
ACTIVE = 0.01


def sample(mean: Tensor, log_var: Tensor, noise: Tensor) -> Tensor:
    """Compute z = mu + sigma eps: mean, log_var and standard normal noise (..., Z) -> (..., Z)."""
    return mean + torch.exp(log_var / 2) * noise


def divergence_by_unit(mean: Tensor, log_var: Tensor) -> Tensor:
    """Compute KL_d of (2): mean and log_var (..., Z) -> (..., Z)."""
    return (log_var.exp() + mean.square() - 1 - log_var) / 2


def free_bits(divergence: Tensor, least: float) -> Tensor:
    """Compute (3): KL_d of B sentences (B, Z), lambda -> (); a unit below lambda has no gradient."""
    return divergence.mean(0).clamp(min=least).sum()


def annealing(updates: Tensor, length: float | Tensor, cycles: int = 1, rising: float = 1.0) -> Tensor:
    """Compute the weight (4).

    Args:
        updates: Number of updates t, ().
        length: Number of updates T after which the weight stays 1.
        cycles: Number of cycles C; one, which rises to its end, is the linear schedule.
        rising: Share R of a cycle in which the weight rises from 0 to 1.
    """
    phase = (updates * cycles / length) % 1
    return torch.where(updates >= length, 1.0, (phase / rising).clamp(max=1))


def active_units(means: Tensor) -> Tensor:
    """Return which units are active by (5): posterior means of N sentences (N, Z) -> (Z,) bool."""
    return means.var(0, correction=0) > ACTIVE


def log_importance(mean: Tensor, log_var: Tensor, noise: Tensor) -> Tensor:
    """Compute log p(z) - log q(z | x) at z = mu + sigma eps: mean, log_var and noise (..., Z) -> (...)."""
    z = sample(mean, log_var, noise)
    return (noise.square() - z.square() + log_var).sum(-1) / 2


def importance_weighted_bound(log_weights: Tensor) -> Tensor:
    """Compute (6) of the logarithms of its K ratios, (K, ...) -> (...)."""
    return log_weights.logsumexp(0) - math.log(len(log_weights))
