"""Posteriors: of the clusters of a mixture, and of CTC where they are known."""

import torch

from espnet_diverse.functional.information import cluster_kl, head_mi_upper
from espnet_diverse.functional.mixture import log_density, posterior


def responsibility(x, *mixture):
    """Posterior cluster probabilities p(c | x) (..., T, C); arguments as in `log_density`."""
    return posterior(log_density(x, *mixture))


def kl_of(x, log_prior, mean, log_var, variance, mask=None, direction="paper"):
    """`cluster_kl` of tokens x (..., T, D) under a mixture."""
    joint = log_density(x, log_prior, mean, log_var)
    return cluster_kl(joint, posterior(joint), x.size(-1), log_prior, log_var, variance, mask, direction)


def mi_of(q, log_prior, mean, log_var, mask=None, mi_density="paper", mi_bound="approximate"):
    """`head_mi_upper` of queries q (..., H, T, D) under a mixture."""
    joint = log_density(q, log_prior, mean, log_var)
    return head_mi_upper(joint, posterior(joint), q.size(-1), mask, mi_density, mi_bound)


def planted(path, labels, probability=0.9):
    """Log posteriors (T, V) that give each label of `path` so much."""
    rest = (1 - probability) / (labels - 1)
    probabilities = torch.full((len(path), labels), rest)
    return probabilities.scatter(1, torch.tensor(path).unsqueeze(1), probability).log()
