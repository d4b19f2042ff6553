"""The Gaussian mixture that clusters tokens, as a module; its equations stand in `functional.mixture`."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from espnet_diverse.functional.mixture import log_density, posterior


class Clustering(NamedTuple):
    """Tokens and what a mixture says of them.

    Attributes:
        x: The tokens (B, H, T, D).
        log_joint: log p(x, c), (B, H, T, C).
        p: Posterior cluster probabilities (9), (B, H, T, C).
    """

    x: Tensor
    log_joint: Tensor
    p: Tensor


class Mixture(nn.Module):
    """A mixture of C Gaussians with diagonal covariance over width D, one for each of `groups` heads.

    Normal centroids start at N(0, 1/D): on layer-normalised tokens the clusters' logits then differ by about one, so
    the posteriors begin neither uniform (all tokens alike, no gradient to tell clusters apart) nor one-hot.

    The parameter `mean` is the centroid divided by `learning_rate_scale`. Adam moves a parameter by about its learning
    rate whatever the size of its gradient, and so moves the centroid by `learning_rate_scale` times as much.

    Args:
        groups: Number of separate mixtures (heads), or 1 for one that all heads share.
        clusters: C.
        width: D.
        init: "normal", or "xavier", as the code released with the SDMA paper.
        gradient_scale: Factor of the centroids' gradients, which Adam divides out again.
        learning_rate_scale: Factor of the centroids' steps under Adam; its square under plain gradient descent.
    """

    def __init__(
        self,
        groups: int,
        clusters: int,
        width: int,
        init: str = "normal",
        gradient_scale: float = 1.0,
        learning_rate_scale: float = 1.0,
    ):
        super().__init__()
        if clusters < 1:
            raise ValueError(f"{clusters} clusters make no mixture; give at least 1")
        self.gradient_scale = gradient_scale
        self.learning_rate_scale = learning_rate_scale
        self.log_prior = nn.Parameter(torch.zeros(groups, clusters))
        self.mean = nn.Parameter(torch.randn(groups, clusters, width) * width**-0.5)
        self.log_var = nn.Parameter(torch.zeros(groups, clusters, width))
        if init == "xavier":
            for parameter in self.parameters():
                nn.init.xavier_normal_(parameter)
        with torch.no_grad():
            self.mean /= learning_rate_scale

    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """log prior (G, C), mean (G, C, D), log variance (G, C, D)."""
        return self.log_prior, self._centroids(), self.log_var

    def forward(self, x: Tensor) -> Clustering:
        """Cluster tokens x (B, H, T, D)."""
        batch, heads, time, width = x.shape
        groups, components = len(self.log_prior), self.components()
        tokens = x.transpose(0, 1).reshape(groups, -1, width)  # all that are clustered alike, of all samples
        joint = log_density(tokens, *components).view(groups, heads // groups, batch, time, -1)
        joint = joint.flatten(0, 1).transpose(0, 1)
        return Clustering(x, joint, posterior(joint))

    def _centroids(self) -> Tensor:
        if self.learning_rate_scale == self.gradient_scale == 1:
            return self.mean
        centroids = self.mean * self.learning_rate_scale
        if centroids.requires_grad:  # not a hook on the parameter, which a copy of the module would lose
            centroids.register_hook(lambda gradient: gradient * self.gradient_scale)
        return centroids
