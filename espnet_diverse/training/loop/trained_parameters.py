"""The share of the parameters of a model that is trained, and detection of training that does not change them."""

from collections import Counter

import torch
from torch import nn

_ENTRIES = 1000
_SMALLEST = 1e-12  # of the largest entry: far less than float32 can add to it, and than a warm-up changes in an epoch
UNCHANGED = (
    "the updates change no parameter by 1e-12 of the largest; raise optim_conf.lr or grad_clip, "
    "or lower optim_conf.eps, optim_conf.weight_decay or scheduler_conf.warmup_steps"
)
"""Error of a training whose first epoch leaves the sample unchanged."""


def trained_share(model: nn.Module) -> str:
    """Report in one line how many parameters are trained, of the whole model and of each of its parts.

    Parts are the children of the model, such as encoder and ctc, and `adapter`: the adapters in them.
    """
    sizes: Counter[str] = Counter()
    trained: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        part = "adapter" if ".adapter." in name or ".lora_" in name else name.partition(".")[0]
        sizes[part] += parameter.numel()
        trained[part] += parameter.numel() if parameter.requires_grad else 0
    total, count = sizes.total(), trained.total()
    if count == total:
        return f"trained: all {total:,} parameters"
    parts = ", ".join(f"{part} {_of(trained[part], number)}" for part, number in sizes.items())
    return f"trained: {count:,} of {total:,} parameters ({100 * count / total:.2g} %): {parts}"


def _of(trained: int, total: int) -> str:
    return f"all {total:,}" if trained == total else f"{trained:,} of {total:,}"


class ParameterSample:
    """The first entries of each parameter that is trained, as they are at construction.

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
