"""The prior p(z | x) of FlowSeq: a normalising flow whose couplings attend to the source.

Ma et al. 2019, "FlowSeq: non-autoregressive conditional sequence generation with generative flow", section 3.3. A step
is ActNorm, an invertible linear map, and an affine coupling; `functional/flows.py` has their equations. The steps
map z to e ~ N(0, I):

    log p(z | x) = log N(f(z; x); 0, I) + log |det df/dz|

Every step begins as a rotation: ActNorm and the coupling begin as the identity. As the posterior begins at about
N(0, I), this is what ActNorm's initialisation from data would give, and processes need not agree on a batch for it. The
coupling's scales are within [1/e, e], so a density never overflows. FlowSeq's multi-scale architecture is left out.
"""

from typing import Any

import torch
from torch import Tensor, nn

from espnet_diverse.contrib.flowseq.transformer import ConditionedTransformer, Source
from espnet_diverse.functional.flows import (
    actnorm,
    actnorm_inverse,
    affine_coupling,
    affine_coupling_inverse,
    invertible_linear,
    invertible_linear_inverse,
    normal_log_density,
)


class FlowStep(nn.Module):
    """A step of the flow.

    Args:
        latent: Width Z of the latent variables.
        groups: Number of groups of features that share a linear map.
        net: Net of the coupling, from Z / 2 features to M.
        width: Model width M.
    """

    def __init__(self, latent: int, groups: int, net: ConditionedTransformer, width: int):
        super().__init__()
        self.log_scale, self.bias = nn.Parameter(torch.empty(latent)), nn.Parameter(torch.empty(latent))
        self.weight = nn.Parameter(torch.empty(latent // groups, latent // groups))
        self.net, self.to_scale_and_bias = net, nn.Linear(width, latent)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw a rotation; ActNorm and the coupling begin as the identity."""
        nn.init.orthogonal_(self.weight)
        for zero in (self.log_scale, self.bias, *self.to_scale_and_bias.parameters()):
            nn.init.zeros_(zero)

    espnet_initialization_fn = reset_parameters  # ESPnet's `init` redraws all parameters, then calls this

    def forward(self, x: Tensor, valid: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        """x (B, T, Z), valid (B, T) -> y (B, T, Z) and the log-determinant (B,)."""
        x, first = actnorm(x, self.log_scale, self.bias, valid)
        x, second = invertible_linear(x, self.weight, valid)
        x, third = affine_coupling(x, lambda half: self._scale_and_bias(half, valid, source), valid)
        return x, first + second + third

    def inverse(self, y: Tensor, valid: Tensor, source: Source) -> Tensor:
        """y (B, T, Z) -> the x that `forward` maps to it."""
        y = affine_coupling_inverse(y, lambda half: self._scale_and_bias(half, valid, source), valid)
        y = invertible_linear_inverse(y, self.weight, valid)
        return actnorm_inverse(y, self.log_scale, self.bias, valid)

    def _scale_and_bias(self, half: Tensor, valid: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        log_scale, bias = self.to_scale_and_bias(self.net(half, valid, source)).chunk(2, dim=-1)
        return log_scale.tanh(), bias


class FlowPrior(nn.Module):
    """The flow.

    Args:
        steps: Its steps, from z to e.
    """

    steps: Any  # nn.ModuleList does not declare the type of its modules

    def __init__(self, steps: list[FlowStep]):
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def log_density(self, z: Tensor, valid: Tensor, source: Source) -> Tensor:
        """Return log p(z | x) in nats: z (B, T, Z), valid (B, T) -> (B,)."""
        total = z.new_zeros(len(z))
        for step in self.steps:
            z, log_determinant = step(z, valid, source)
            total = total + log_determinant
        return total + normal_log_density(z, torch.zeros_like(z), torch.zeros_like(z), valid)

    def sample(self, noise: Tensor, valid: Tensor, source: Source) -> Tensor:
        """Return z = f^-1(e; x) for noise e (B, T, Z): a sample for e ~ N(0, I), the centre of the prior for 0."""
        for step in reversed(self.steps):
            noise = step.inverse(noise, valid, source)
        return noise
