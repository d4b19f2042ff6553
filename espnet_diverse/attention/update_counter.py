"""Counts optimizer updates from inside a module, whoever runs the training loop."""

import torch
from torch import Tensor, nn

_UNSEEN = -1  # no version of a parameter


class UpdateCounter(nn.Module):
    """The number of optimizer updates that a parameter has seen, in a float buffer.

    ESPnet tells its modules nothing of the training step, and a forward pass is not an update: gradients accumulate
    over several, validation and plots run more, and a step with non-finite gradients is skipped. An optimizer step
    changes the watched parameter in place, which raises the version that autograd keeps of it; so an update is counted
    in the first training forward that sees a new version. A float buffer is averaged by checkpoint averaging as the
    weights are.
    """

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self._version: int | None = None

    def forward(self, watched: Tensor) -> Tensor:
        """Count an update if `watched` was changed since the last training forward; return the count ()."""
        if self.training:
            if self._version is not None and self._version != watched._version:
                self.count = self.count + 1
            self._version = watched._version
        return self.count

    def _load_from_state_dict(self, *args, **kwargs):
        """Loading changes the watched parameter too, and is no update. But a checkpoint is written after an update that
        no forward pass has seen yet, so that training that goes on from it counts one at its first forward pass.
        """
        super()._load_from_state_dict(*args, **kwargs)
        self._version = _UNSEEN if self.count > 0 else None
