"""The tasks of `runs/tasks.py` with our trainer, optimizers, batches and initialisation."""

from argparse import Namespace
from functools import partial
from math import ceil
from pathlib import Path

from espnet2.tasks import abs_task
from espnet2.tasks.abs_task import AbsTask

from espnet_diverse.progress import WithProgress
from espnet_diverse.registration import replaced_names
from espnet_diverse.runs import tasks
from espnet_diverse.runs.lora import create_adapter
from espnet_diverse.training.checkpoints.initialisation import initialise
from espnet_diverse.training.data.batches import row_batches
from espnet_diverse.training.loop.optimizers import FusedOptimizers
from espnet_diverse.training.loop.trainer import Trainer


class _Trained(FusedOptimizers):
    """Methods of the training that our tasks share; before a task of `runs/tasks.py` in the bases."""

    trainer = Trainer

    @classmethod
    def build_sequence_iter_factory(cls, args: Namespace, iter_options, mode: str):
        """See `row_batches`; ESPnet's own for what that lacks: folded batches by utt2category, several tasks."""
        folder = Path(iter_options.data_path_and_name_and_type[0][0]).parent
        by_category = iter_options.batch_type == "folded" and (folder / "utt2category").exists()
        if args.multi_task_dataset or by_category and not args.sampling:
            return super().build_sequence_iter_factory(args=args, iter_options=iter_options, mode=mode)
        return row_batches(args, iter_options, mode, cls.check_task_requirements)

    @classmethod
    def main_worker(cls, args: Namespace) -> None:
        """Run one process of ESPnet's command, with our `initialise` for `init_param` and our `create_adapter`."""
        # ESPnet puts the tokens into the arguments when it builds the model.
        load_pretrained_model = partial(initialise, config=vars(args))
        with replaced_names(abs_task, load_pretrained_model=load_pretrained_model, create_adapter=create_adapter):
            super().main_worker(args)

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
