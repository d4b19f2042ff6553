"""Counts optimizer updates from inside a module, whoever runs the training loop."""

import torch
from torch import Tensor, nn

_UNSEEN = -1  # no version of a parameter


class UpdateCounter(nn.Module):
    """Counts the optimizer updates of a parameter in a float buffer.

    ESPnet does not pass the training step to its modules, and a forward pass is not an update: gradients accumulate
    over several passes, validation and plots run more of them, and a step with non-finite gradients is skipped. An
    optimizer step changes the watched parameter in place, which raises autograd's version counter of the tensor. An
    update is therefore counted in the first forward pass in training that sees a new version. The buffer is a float so
    that checkpoint averaging averages it like the weights.
    """

    count: Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self._seen: int | None = None  # not `_version`, which a module has for its state dict

    def forward(self, watched: Tensor) -> Tensor:
        """Count an update if `watched` has changed since the last forward pass in training; return the count ()."""
        if self.training:
            if self._seen is not None and self._seen != watched._version:
                self.count = self.count + 1
            self._seen = watched._version
        return self.count

    def _load_from_state_dict(self, *args, **kwargs):
        """Load the count without counting the loading, which also changes the watched parameter, as an update.

        A checkpoint is written after an update that no forward pass has seen yet. Training that continues from it
        therefore counts one update in its first forward pass.
        """
        super()._load_from_state_dict(*args, **kwargs)
        self._seen = _UNSEEN if self.count > 0 else None
