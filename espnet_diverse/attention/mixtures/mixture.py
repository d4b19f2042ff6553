"""The Gaussian mixture that clusters tokens, as a module. Its equations are in `functional.mixture`."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from espnet_diverse.functional.mixture import log_density, posterior
from espnet_diverse.functional.precision import in_full_precision


class Clustering(NamedTuple):
    """Tokens and their clustering by a mixture.

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

    With `init="normal"` centroids are drawn from N(0, 1/D). On layer-normalised tokens the logits of the clusters then
    differ by about one, so the initial posteriors are neither uniform (which would give no gradient to separate the
    clusters) nor one-hot.

    The parameter `mean` is the centroid divided by `learning_rate_scale`. A step of Adam has about the size of the
    learning rate for any size of the gradient, so the centroid moves by `learning_rate_scale` times as much.

    Args:
        groups: Number of separate mixtures, one for each head, or 1 for one that all heads share.
        clusters: Number of clusters C.
        width: Width D of a token.
        init: Initial values: "normal", or "xavier" as in the code released with the SDMA paper.
        gradient_scale: Factor of the centroids' gradients. It has no effect on the steps of Adam.
        learning_rate_scale: Factor of the centroids' steps with Adam. With gradient descent the factor is its square.
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
        self.gradient_scale = gradient_scale
        self.learning_rate_scale = learning_rate_scale
        self.log_prior = nn.Parameter(torch.empty(groups, clusters))
        self.mean = nn.Parameter(torch.empty(groups, clusters, width))
        self.log_var = nn.Parameter(torch.empty(groups, clusters, width))
        self.init = init
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the centroids, and with `init="xavier"` all parameters; otherwise clusters begin equally probable."""
        nn.init.zeros_(self.log_prior)
        nn.init.normal_(self.mean, std=self.mean.size(-1) ** -0.5)
        nn.init.zeros_(self.log_var)
        if self.init == "xavier":
            for parameter in self.parameters():
                nn.init.xavier_normal_(parameter)
        self.mean.div_(self.learning_rate_scale)

    espnet_initialization_fn = reset_parameters  # ESPnet's `init` redraws all parameters, then calls this

    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return log prior (G, C), mean (G, C, D) and log variance (G, C, D), in float32 at least."""
        log_prior, mean, log_var = map(in_full_precision, (self.log_prior, self._centroids(), self.log_var))
        return log_prior, mean, log_var

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
