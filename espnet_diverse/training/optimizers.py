"""The optimizers of a training, in PyTorch's fused form where there is one."""

from argparse import Namespace

from torch import nn
from torch.autograd.graph import increment_version
from torch.optim import Optimizer

FUSED = ("adam", "adamw")
"""Names of optimizers of which PyTorch has a fused form for CPUs and GPUs."""


class FusedOptimizers:
    """Part of our tasks; before a task of ESPnet in the bases.

    The fused form updates all parameters in one call, and not in a dozen for each. Its results differ in the last
    digits. A run that began without it goes on without it, because PyTorch keeps the form with the saved state.
    """

    @classmethod
    def build_optimizers(cls, args: Namespace, model: nn.Module) -> list[Optimizer]:
        """ESPnet's optimizers; Adam in its fused form, unless `optim_conf` has `fused`, `foreach` or `differentiable`.

        Args:
            args: Arguments of the task; they are not changed.
            model: The model.
        """
        options = args.optim_conf
        if args.optim in FUSED and not options.keys() & {"fused", "foreach", "differentiable"}:
            args = Namespace(**{**vars(args), "optim_conf": {**options, "fused": True}})
        optimizers = super().build_optimizers(args, model)  # type: ignore[misc]
        for optimizer in optimizers:
            optimizer.register_step_post_hook(_raise_versions)
        return optimizers


def _raise_versions(optimizer: Optimizer, *_) -> None:
    """Raise the version counters of the parameters, by which `UpdateCounter` counts and which the fused form leaves.

    Not where the step was left out because a gradient is not finite, which a `GradScaler` tells by `found_inf`.
    """
    if not getattr(optimizer, "found_inf", None):
        increment_version(p for group in optimizer.param_groups for p in group["params"])
