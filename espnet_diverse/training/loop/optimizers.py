"""The optimizers of a training, in PyTorch's fused form where there is one, and which parameters they leave."""

from argparse import Namespace
from collections.abc import Sequence

from torch import nn
from torch.optim import Optimizer

from espnet_diverse.errors import ConfigError

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

        Raises:
            ConfigError: `freeze_param` names what the model does not have, or leaves nothing to train.
        """
        freeze(model, args.freeze_param)
        options = args.optim_conf
        if args.optim in FUSED and not options.keys() & {"fused", "foreach", "differentiable"}:
            args = Namespace(**{**vars(args), "optim_conf": {**options, "fused": True}})
        return super().build_optimizers(args, model)  # type: ignore[misc]


def freeze(model: nn.Module, names: str | Sequence[str]) -> None:
    """Freeze parameters of `model`, as ESPnet does for `freeze_param`, and shared ones by each of their names.

    Those of an adapter of low rank (`use_adapter`) are trained: ESPnet adds it after it has frozen the rest.

    ESPnet knows a shared parameter by its first name alone, such as decoder.embed for decoder.output_layer, and takes a
    name that the model does not have for nothing to freeze.

    Args:
        model: The model.
        names: Names of parameters or modules, or one name.

    Raises:
        ConfigError: The model has nothing of that name, or no parameter is left to train.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    names = [names] if isinstance(names, str) else names
    for name in names:
        found = [(full, p) for full, p in parameters.items() if full == name or full.startswith(f"{name}.")]
        if not found:
            parts = " ".join(dict.fromkeys(full.partition(".")[0] for full in parameters))
            raise ConfigError(f"freeze_param: the model has nothing under the name {name!r}; it has: {parts}")
        for full, parameter in found:
            parameter.requires_grad_(full.rpartition(".")[2].startswith("lora_") and parameter.requires_grad)
    if names and not any(parameter.requires_grad for parameter in parameters.values()):
        raise ConfigError(f"freeze_param {' '.join(names)} leaves no parameter to train; freeze less")
