"""Posteriors: of the clusters of a mixture, and of CTC where they are known."""

import torch

from espnet_diverse.functional.mixture import log_density, posterior


def responsibility(x, *mixture):
    """Posterior cluster probabilities p(c | x) (..., T, C); arguments as in `log_density`."""
    return posterior(log_density(x, *mixture))


def planted(path, labels, probability=0.9):
    """Log posteriors (T, V) that give each label of `path` so much."""
    rest = (1 - probability) / (labels - 1)
    probabilities = torch.full((len(path), labels), rest)
    return probabilities.scatter(1, torch.tensor(path).unsqueeze(1), probability).log()
