"""The tasks of `runs/tasks.py` with our trainer, optimizers and batches."""

from argparse import Namespace
from collections.abc import Sequence
from fnmatch import fnmatchcase
from math import ceil
from pathlib import Path

from espnet2.tasks.abs_task import AbsTask
from torch import nn
from torch.optim import Optimizer

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.adapters.bottleneck import keep_statistics
from espnet_diverse.nets.adapters.low_rank import adapted
from espnet_diverse.progress import WithProgress
from espnet_diverse.runs import tasks
from espnet_diverse.training.data.batches import row_batches
from espnet_diverse.training.loop.trainer import Trainer

FUSED = ("adam", "adamw")
"""Names of optimizers of which PyTorch has a fused form for CPUs and GPUs."""


def freeze(model: nn.Module, names: str | Sequence[str], but: str | Sequence[str] = ()) -> None:
    """Freeze parameters of `model`, as ESPnet does for `freeze_param`, and shared ones by each of their names.

    The parameters of an adapter of low rank (`use_adapter`) are trained, as ESPnet adds it after it has frozen the
    rest. With one, frozen batch norms keep their statistics.

    ESPnet knows a shared parameter by its first name alone, decoder.embed and not decoder.output_layer, and ignores
    names that the model does not have; here they are an error.

    Args:
        model: The model.
        names: Names of parameters or modules, or patterns of names of parameters with `*`, or one of them.
        but: Names and patterns of exceptions, which are trained, `unfreeze_param`.

    Raises:
        ConfigError: The model has nothing of that name, no parameter is left to train, or a map with an adapter of low
            rank is trained itself.
    """
    names, but = ([given] if isinstance(given, str) else given for given in (names, but))
    for name in names:
        for full, parameter in _named(model, name, "freeze_param"):
            parameter.requires_grad_(full.rpartition(".")[2].startswith("lora_") and parameter.requires_grad)
    for name in but:
        for _, parameter in _named(model, name, "unfreeze_param"):
            parameter.requires_grad_(True)
    if names and not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(f"freeze_param {' '.join(names)} leaves no parameter to train; freeze less")
    trained = [name for name, module in adapted(model) if module.weight.requires_grad]
    if trained:
        what = f"use_adapter: {trained[0]} has an adapter, and its weight is trained itself"
        raise ConfigError(f"{what}; freeze it by freeze_param, or leave it out of adapter_conf.target_modules")
    if any(True for _ in adapted(model)):
        keep_statistics(model)


def _named(model: nn.Module, name: str, key: str) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters of a name, a module or a pattern, with each of their names; `key` asks for them."""
    parameters = list(model.named_parameters(remove_duplicate=False))
    if set(name) & set("*?["):
        found = [(full, parameter) for full, parameter in parameters if fnmatchcase(full, name)]
    else:
        found = [(full, p) for full, p in parameters if full == name or full.startswith(f"{name}.")]
    if not found:
        parts = " ".join(dict.fromkeys(full.partition(".")[0] for full, _ in parameters))
        raise ConfigError(f"{key}: the model has nothing under the name {name!r}; it has: {parts}")
    return found


class _Trained:
    """Methods of the training that our tasks share; before a task of `runs/tasks.py` in the bases."""

    trainer = Trainer

    @classmethod
    def build_optimizers(cls, args: Namespace, model: nn.Module) -> list[Optimizer]:
        """ESPnet's optimizers; Adam in its fused form, unless `optim_conf` has `fused`, `foreach` or `differentiable`.

        The fused form updates all parameters in one call. Its results differ in the last digits. A run that began
        without it continues without it, because PyTorch keeps the form with the saved state.

        Args:
            args: Arguments of the task; they are not changed.
            model: The model.

        Raises:
            ConfigError: See `freeze`.
        """
        freeze(model, args.freeze_param, args.unfreeze_param)
        options = args.optim_conf
        if args.optim in FUSED and not options.keys() & {"fused", "foreach", "differentiable"}:
            args = Namespace(**{**vars(args), "optim_conf": {**options, "fused": True}})
        return super().build_optimizers(args, model)  # type: ignore[misc]

    @classmethod
    def build_sequence_iter_factory(cls, args: Namespace, iter_options, mode: str):
        """See `row_batches`; ESPnet's own for what that lacks: folded batches by utt2category."""
        folder = Path(iter_options.data_path_and_name_and_type[0][0]).parent
        by_category = iter_options.batch_type == "folded" and (folder / "utt2category").exists()
        if by_category and not args.sampling:
            return super().build_sequence_iter_factory(args=args, iter_options=iter_options, mode=mode)
        return row_batches(args, iter_options, mode, cls.check_task_requirements)

    @classmethod
    def build_streaming_iterator(cls, data_path_and_name_and_type, *args, mode=None, batch_size=1, **kwargs):
        """ESPnet's iterator over data files; shows progress when statistics are collected."""
        loader = super().build_streaming_iterator(
            data_path_and_name_and_type, *args, mode=mode, batch_size=batch_size, **kwargs
        )
        if mode is None:
            return loader
        with Path(data_path_and_name_and_type[0][0]).open(encoding="utf-8") as file:
            total = ceil(sum(1 for _ in file) / batch_size)
        return WithProgress(loader, f"stats {mode}", total, "step")


TASKS: dict[str, type[AbsTask]] = {
    name: type(task.__name__, (_Trained, task), {"__doc__": task.__doc__}) for name, task in tasks.TASKS.items()
}
