"""The tasks of `runs/tasks.py` with our trainer, optimizers and batches."""

from argparse import Namespace
from math import ceil
from pathlib import Path

from espnet2.tasks.abs_task import AbsTask
from torch import nn
from torch.optim import Optimizer

from espnet_diverse.progress import WithProgress
from espnet_diverse.runs import tasks
from espnet_diverse.runs.condition_names import ConditionIndices
from espnet_diverse.training.data.batches import row_batches
from espnet_diverse.training.data.sampled_pieces import seeded
from espnet_diverse.training.freezing import freeze
from espnet_diverse.training.loop.trainer import Trainer

FUSED = ("adam", "adamw")
"""Names of optimizers of which PyTorch has a fused form for CPUs and GPUs."""


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
    def build_preprocess_fn(cls, args: Namespace, train: bool):
        """ESPnet's preprocessor; where it samples pieces of words, by the seed of each row."""
        preprocess = super().build_preprocess_fn(args, train)  # type: ignore[misc]
        inner = preprocess.preprocess if isinstance(preprocess, ConditionIndices) else preprocess
        if isinstance(tokenizers := getattr(inner, "tokenizer", None), list):  # only these can sample
            inner.tokenizer = list(map(seeded, tokenizers))
        return preprocess

    @classmethod
    def build_sequence_iter_factory(cls, args: Namespace, iter_options, mode: str):
        """See `row_batches`; ESPnet's own for what that lacks: folded batches by utt2category."""
        folder = Path(iter_options.data_path_and_name_and_type[-1][0]).parent  # of a text; features may be elsewhere
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
