"""Detection of training that does not change the parameters, by a few entries of each."""

import torch
from torch import nn

_ENTRIES = 1000
_SMALLEST = 1e-12  # of the largest entry: far less than float32 can add to it, and than a warm-up changes in an epoch


UNCHANGED = (
    "the updates change no parameter by 1e-12 of the largest; raise optim_conf.lr or grad_clip, "
    "or lower optim_conf.eps, optim_conf.weight_decay or scheduler_conf.warmup_steps"
)
"""Error of a training whose first epoch leaves the sample unchanged."""


class ParameterSample:
    """The first entries of each parameter that is trained, as they are now.

    Args:
        model: The model.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        self._before = self._take()

    def unchanged(self) -> bool:
        """Return whether no entry has changed by more than 1e-12 of the largest one."""
        changes = (self._take() - self._before).abs()
        return not changes.numel() or bool(changes.max() <= _SMALLEST * self._before.abs().max())

    def _take(self) -> torch.Tensor:
        taken = [p.detach().flatten()[:_ENTRIES].double().cpu() for p in self.model.parameters() if p.requires_grad]
        return torch.cat(taken) if taken else torch.empty(0)
