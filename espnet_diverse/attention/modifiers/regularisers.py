"""Regularisers of the heads of any core: changes of their outputs in training.

`drop_heads` removes whole heads at random (Zhang et al. 2021, "Stochastic Attention Head Removal", for recognition;
Zhou et al. 2020, "Scheduled DropHead", for translation). With m_h in {0, 1} drawn for each sample and head,

    context_h <- m_h context_h H / sum_h' m_h',    P(m_h = 0) = rate,

and 0 for a sample without heads. `relaxed` mixes the weights with uniform ones (Lohrenz et al. 2021, "Relaxed
Attention"). It needs no weights, because the context is linear in them:

    A <- (1 - gamma) A + gamma / T,    that is    context <- (1 - gamma) context + gamma mean_j v_j,

where j are the T keys that the mask allows. Both do nothing in evaluation.
Softmax-equivalent settings: rate 0, and gamma 0.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Heads
from espnet_diverse.attention.update_counter import UpdateCounter, is_share
from espnet_diverse.option_checks import Options, choice, needs, number


@dataclass(frozen=True)
class DropHeadsOptions(Options):
    """Options of removed heads, the keys of the `drop_heads:` section of an attention.

    Attributes:
        rate: Probability that a head is removed.
        schedule: "constant"; "linear", from 0 to `rate` in `steps` updates; or "v", from `rate` to 0 in `steps` updates
            and back to `rate` in the rest of the run.
        steps: Number of updates, or a fraction of the run (required for "v").
    """

    rate: float = number(0.1, least=0, below=1)
    schedule: str = choice("constant", "linear", "v")
    steps: float = number(0.1, above=0)

    def __post_init__(self):
        super().__post_init__()
        if self.schedule == "v" and not is_share(self.steps):
            raise needs(self, "schedule", "steps as a share of the run, such as 0.1")


@dataclass(frozen=True)
class RelaxedOptions(Options):
    """Options of relaxed attention, the keys of the `relaxed:` section of an attention.

    Attributes:
        gamma: Weight of the uniform distribution.
    """

    gamma: float = number(0.1, least=0, most=1)


class DropHeads(nn.Module):
    """Removes whole heads at random in training.

    Args:
        options: The options.
    """

    always = False  # nothing in evaluation

    def __init__(self, options: DropHeadsOptions):
        super().__init__()
        self.options = options
        constant = options.schedule == "constant"
        self.updates = None if constant else UpdateCounter(options.steps)

    def forward(self, heads: Heads, context: Tensor, watched: Tensor) -> Tensor:
        """Remove heads of the context (B, H, Tq, D) -> (B, H, Tq, D); `watched` is a parameter, see `UpdateCounter`."""
        if not self.training:
            return context
        drawn = torch.rand(context.shape[:2], device=context.device)
        mask = (drawn >= self.rate(watched)).to(context.dtype)
        return context * (mask * mask.size(1) / mask.sum(1, keepdim=True).clamp(min=1))[..., None, None]

    def rate(self, watched: Tensor) -> float | Tensor:
        """Return the probability that a head is removed at the current number of updates."""
        rate, schedule = self.options.rate, self.options.schedule
        if self.updates is None:
            return rate
        done, steps = self.updates(watched), self.updates.length(self.options.steps)
        if schedule == "linear":
            return rate * (done / steps).clamp(max=1)
        rising = (done - steps) / (self.updates.of_run - steps)
        return rate * torch.where(done < steps, 1 - done / steps, rising).clamp(0, 1)


class Relaxed(nn.Module):
    """Mixes the weights of every head with uniform ones in training.

    Args:
        options: The options.
    """

    always = False

    def __init__(self, options: RelaxedOptions):
        super().__init__()
        self.options = options

    def forward(self, heads: Heads, context: Tensor, watched: Tensor) -> Tensor:
        """Relax the context (B, H, Tq, D) -> (B, H, Tq, D)."""
        gamma = self.options.gamma
        if not self.training or gamma == 0:
            return context
        return torch.lerp(context, uniform_context(heads.v, heads.allowed()).expand_as(context), gamma)


def uniform_context(v: Tensor, allowed: Tensor | None) -> Tensor:
    """Compute the mean of the values of the keys that each query may attend to; 0 where there are none.

    v (B, H, Tk, D), allowed bool broadcastable to (B, H, Tq, Tk) -> (B, H, 1 or Tq, D).
    """
    if allowed is None:
        return v.mean(-2, keepdim=True)
    weights = allowed.to(v.dtype)
    return (weights @ v / weights.sum(-1, keepdim=True).clamp(min=1)).to(v.dtype)  # autocast of a GPU sums in float32
