"""Collection of statistics on workers: ESPnet's `collect_stats`, with batches that workers reduce to shapes and sums.

ESPnet adds the sums of every utterance to a total, in order. The batches here are ESPnet's, as padding may change the
last digits of features, and the client adds the sums of every utterance in the same order: all files are the same.
Workers get the lines of the tables, so that they need not read tables of millions of lines.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import batched, tee
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from espnet2.fileio.datadir_writer import DatadirWriter
from espnet2.torch_utils.set_all_random_seed import set_all_random_seed
from torch.utils.data import DataLoader

from espnet_diverse.data.threads import Workers
from espnet_diverse.errors import ClusterError, UserError, abridged
from espnet_diverse.progress import WithProgress
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.training import espnet_command
from espnet_diverse.training.frozen_features import without_features

Row = tuple[str, ...]
"""The lines of an utterance, one of each table."""


class Sums(NamedTuple):
    """A batch: shapes of its data by name, and by name of the features count, sum and sum of squares, by utterance."""

    shapes: dict[str, list[str]]
    sums: dict[str, list[tuple[int, Any, Any]]]


@dataclass(frozen=True)
class BatchSums:
    """Work of a process on the rows of a batch; it can be pickled.

    Attributes:
        task: Name of the task.
        config: The configuration of ESPnet's command, as JSON.
        entries: ESPnet's name and type of each table.
    """

    task: str
    config: str
    entries: tuple[tuple[str, str], ...]

    def __call__(self, rows: Sequence[Row]) -> Sums:
        """Read a batch and compute its shapes and sums."""
        loaded = _loaded(self.task, self.config)
        with tempfile.TemporaryDirectory() as folder:
            tables = []
            for (name, kind), lines in zip(self.entries, zip(*rows, strict=True), strict=True):
                (path := Path(folder) / name).write_text("".join(lines), encoding="utf-8")
                tables.append((str(path), name, kind))
            _, batch = next(iter(loaded.loader(tables, len(rows))))
        shapes = {name: _shapes(batch, name) for name in batch if not name.endswith("_lengths")}
        with torch.no_grad():
            features = loaded.model.collect_feats(**batch)
        return Sums(shapes, {name: list(_sums(features, name)) for name in features})


class _Loaded:
    """Objects with which a process reads batches and computes features."""

    def __init__(self, task: str, config: str):
        self.task = TASKS[task]
        self.args = espnet_command.arguments(self.task, json.loads(config))
        set_all_random_seed(self.args.seed)
        model = self.task.build_model(self.args).to(dtype=getattr(torch, self.args.train_dtype))
        self.model = without_features(model, self.args)
        self.preprocess = self.task.build_preprocess_fn(self.args, train=False)
        self.collate = self.task.build_collate_fn(self.args, train=False)

    def loader(self, tables: list[tuple[str, str, str]], size: int) -> DataLoader:
        return self.task.build_streaming_iterator(
            tables,
            self.preprocess,
            self.collate,
            batch_size=size,
            dtype=self.args.train_dtype,
            num_workers=0,
            allow_variable_data_keys=self.args.allow_variable_data_keys,
        )


@lru_cache(maxsize=1)
def _loaded(task: str, config: str) -> _Loaded:
    return _Loaded(task, config)


def _shapes(batch: Mapping[str, torch.Tensor], name: str) -> list[str]:
    lengths = batch.get(f"{name}_lengths")
    tensors = (data if lengths is None else data[: lengths[place]] for place, data in enumerate(batch[name]))
    return [",".join(map(str, data.shape)) for data in tensors]


def _sums(features: Mapping[str, torch.Tensor], name: str) -> Iterator[tuple[int, Any, Any]]:
    """Number of rows, sum and sum of squares of each utterance without padding; without lengths it has one row."""
    lengths = features.get(f"{name}_lengths")
    for place, data in enumerate(features[name].cpu().numpy()):
        rows = data[None] if lengths is None else data[: lengths[place]]
        yield len(rows), rows.sum(0), (rows**2).sum(0)


def collect_sums(
    workers: Workers,
    task: str,
    config: Mapping,
    *,
    train_iter: WithProgress,
    valid_iter: WithProgress,
    output_dir: Path,
    **_,
) -> None:
    """Write the files of ESPnet's `collect_stats`, whose arguments follow ours.

    Args:
        workers: The workers.
        task: Name of the task, a key of `TASKS`.
        config: The configuration of ESPnet's command.
        train_iter: The batches of the training set.
        valid_iter: The batches of the validation set.
        output_dir: Directory to write.

    Raises:
        ClusterError: Workers are lost, or killed by some utterances.
    """
    described = json.dumps(config)
    for shown, mode in ((train_iter, "train"), (valid_iter, "valid")):
        tables = shown.items.dataset.path_name_type_list
        function = BatchSums(task, described, tuple((name, kind) for _, name, kind in tables))
        with ExitStack() as stack:
            files = [stack.enter_context(Path(path).open(encoding="utf-8")) for path, _, _ in tables]
            sent, batches = tee(map(list, batched(zip(*files, strict=True), shown.items.batch_size)))
            results = WithProgress(workers.map(function, sent), shown.name, shown.total, shown.unit)
            _write(zip(batches, results, strict=True), output_dir / mode)


def _write(batches: Iterator[tuple[list[Row], Sums | UserError]], folder: Path) -> None:
    """Add the sums of all utterances in order, and write the files of a set."""
    totals: dict[str, list] = {}
    names: list[str] = []
    with DatadirWriter(folder) as writer:
        for rows, result in batches:
            keys = [row[0].split(maxsplit=1)[0] for row in rows]
            if isinstance(result, UserError):
                raise ClusterError(f"utterances {abridged(keys, separator=' ')}: {result}")
            names = list(result.shapes)
            for name, shapes in result.shapes.items():
                for key, shape in zip(keys, shapes, strict=True):
                    writer[f"{name}_shape"][key] = shape
            for name, sums in result.sums.items():
                total = totals.setdefault(name, [0, 0, 0])
                for terms in sums:
                    for place, value in enumerate(terms):
                        total[place] += value
    for name, (count, total, squares) in totals.items():
        np.savez(folder / f"{name}_stats.npz", count=count, sum=total, sum_square=squares)
    for file, listed in (("batch_keys", names), ("stats_keys", list(totals))):
        (folder / file).write_text("\n".join(listed) + "\n", encoding="utf-8")
