#!/usr/bin/env python3
"""Compare what `espnet-diverse plan --gpu cpu` predicts with six real training runs of different sizes.

    python benchmarks/plan_error.py --output_dir build/plan

The corpus is the synthetic one of egs/aishell. Each prediction and each run has a process of its own; they take turns,
so that phases of a slow machine affect both. Time is the CPU time of an epoch with its validation, for a run the mean
of the epochs after the first, in which kernels are measured. "Tensors" are parameters, states of the optimizer,
gradients and activations, in a run the largest sum in its first epoch; "process" is the largest resident set. The last
column predicts the training part from counts alone: seconds for each operation of products, byte of traffic and call
are fitted to the other runs, as published figures of a GPU would give them.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import measuring
import numpy as np
import torch
from length import _resident
from scipy.optimize import nnls

from espnet_diverse.registration import fast_start
from espnet_diverse.scoring.table import markdown_table

BATCHES = "egs/common/conf/demo_asr.yaml"
RUNS = {
    "tiny conv2d, softmax": ("model/tiny", "softmax", 600_000, []),
    "small, softmax": ("model/small", "softmax", 600_000, []),
    "small, sdma": ("model/small", "sdma", 1_200_000, []),
    "small wide, window": (
        "model/small",
        "window",
        1_800_000,
        ["encoder_conf.output_size=256", "encoder_conf.linear_units=1024"],
    ),
    "conformer, softmax": ("model/conformer_small", "softmax", 600_000, ["encoder_conf.num_blocks=3"]),
    "6x6, luna": ("model/transformer_6x6", "luna", 1_200_000, ["encoder_conf.num_blocks=3"]),
}
"""Model, attention, batch_bins and changes of each run."""


class Result(NamedTuple):
    """A prediction or a run: seconds of an epoch, bytes of tensors and of the process.

    Attributes:
        training: Seconds of the epoch without its validation; of a prediction the products, traffic and calls in it.
    """

    epoch: float
    tensors: float
    process: float
    training: list[float]


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, required=True, help="directory of the corpus and the runs")
    parser.add_argument("--size", default="demo", help="size of the synthetic corpus: demo or tiny (demo)")
    parser.add_argument("--runs", nargs="+", default=list(RUNS), choices=RUNS, metavar="RUN", help="runs (all)")
    parser.add_argument("--epochs", type=int, default=2, help="epochs of a run (2)")
    parser.add_argument("--rounds", type=int, default=2, help="predictions and runs of each (2)")
    args = parser.parse_args(argv)
    print(*measuring.conditions(f"means of {args.rounds} rounds", torch.device("cpu")), "", sep="\n", flush=True)
    sets = _in_process(_corpus, args.output_dir, args.size)
    results: dict[str, list[tuple[Result, Result]]] = {name: [] for name in args.runs}
    for number in range(args.rounds):
        for name in args.runs:
            folder = args.output_dir / f"{name.replace(', ', '_').replace(' ', '_')}_{number}"
            predicted = _in_process(predict, sets, name)
            results[name].append((predicted, _in_process(train, sets, name, folder, args.epochs)))
            print(name, *results[name][-1], file=sys.stderr, flush=True)
    _print({name: [_mean(each) for each in zip(*rounds, strict=True)] for name, rounds in results.items()})


def _in_process(function: Callable, *args: Any) -> Any:
    """The result of a function in a new process, whose memory is its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def _corpus(folder: Path, size: str) -> dict[str, Path]:
    """The data directories of the synthetic corpus."""
    from espnet_diverse.bin.main import main as command

    data = folder / "data"
    words = ["prepare", "aishell", "--corpus", "synthetic", "--size", size, "--output_dir", str(data), "--nj", "1"]
    if not data.is_dir() and command(words):
        raise SystemExit("the corpus was not made; the lines above say why")
    return {"train_dir": data / "train", "valid_dir": data / "dev"}


def _settings(name: str) -> tuple[list[str], str, list[str]]:
    """Fragments of the configuration of a run, its attention, and changes."""
    model, attention, bins, changes = RUNS[name]
    batches = str(Path(__file__).parents[1] / BATCHES)
    return [model, batches], attention, [f"batch_bins={bins}", *changes]


def predict(sets: Mapping[str, Path], name: str) -> Result:
    """What `plan --gpu cpu` says of a run."""
    fast_start()
    from espnet_diverse.cpu.allocator import IN_TRAINING, keep_freed_memory
    from espnet_diverse.training.planning.table import Planned

    keep_freed_memory(IN_TRAINING)
    fragments, attention, changes = _settings(name)
    shared = {**sets, "task": "asr", "set": changes}
    ((_, found),) = Planned(shared=shared, fragments=fragments, attentions=[attention], gpu="cpu").estimates()
    counts = [found.counts.products, found.counts.traffic, found.counts.calls]
    return Result(found.epoch, found.tensors, found.peak, [len(found.trial.batches) * each for each in counts])


def train(sets: Mapping[str, Path], name: str, folder: Path, epochs: int) -> Result:
    """What a run takes."""
    fast_start()
    from espnet_diverse.runs.operations import Counter, resident
    from espnet_diverse.training.loop.trainer import Loop
    from espnet_diverse.training.loop.updates import Updates
    from espnet_diverse.training.pipeline import Characters, Statistics, Training

    tensors, seconds, accumulate = [0.0], {}, Updates.accumulate

    def counted(self: Updates, group: Any, epoch: int) -> Any:
        if epoch > 1:
            return accumulate(self, group, epoch)
        with Counter() as counter:
            result = accumulate(self, group, epoch)
        states = [dict(optimizer.state) for optimizer in self.optimizers]
        tensors.append(counter.counts().peak + resident(*self.model.parameters(), states))
        return result

    Updates.accumulate = counted
    for method in ("train_epoch", "validate_epoch"):
        setattr(Loop, method, _timed(getattr(Loop, method), seconds.setdefault(method, [])))
    fragments, attention, changes = _settings(name)
    config = ",".join([*fragments, f"attention/{attention}"])
    words = {**sets, "config": config, "set": [*changes, f"max_epoch={epochs}"], "tokens_dir": folder / "tokens"}
    Characters(text=[sets["train_dir"] / "text"], output_dir=folder / "tokens").run()
    _in_process(Statistics.run, Statistics(**words, output_dir=folder / "stats"))
    Training(**words, stats_dir=folder / "stats", output_dir=folder / "run", restart=True).run()
    training, validation = (mean(each[1:]) for each in seconds.values())
    return Result(training + validation, max(tensors), _resident("VmHWM"), [training])


def _timed(function: Callable, seconds: list[float]) -> Callable:
    """A function that adds the CPU time of each call to a list."""

    def call(*args: Any) -> Any:
        start = time.process_time()
        result = function(*args)
        seconds.append(time.process_time() - start)
        return result

    return call


def _mean(results: Sequence[Result]) -> Result:
    *numbers, trainings = zip(*results, strict=True)
    return Result(*map(mean, numbers), np.mean(trainings, axis=0).tolist())


def _print(results: Mapping[str, Sequence[Result]]) -> None:
    """Print the table, from a prediction and a run by name, and the largest errors."""
    parts = {"s an epoch": 1, "GB of tensors": 1e9, "GB of the process": 1e9}
    cells = [f"{part}: {kind}" for part in parts for kind in ("predicted", "real", "error")]
    rows, errors = [], []
    for name, pair in results.items():
        both = [(told / unit, real / unit) for told, real, unit in zip(*pair, parts.values(), strict=False)]
        errors.append([told / real - 1 for told, real in both])
        rows.append([name])
        for (told, real), error in zip(both, errors[-1], strict=True):
            rows[-1] += [f"{told:.2f}", f"{real:.2f}", f"{100 * error:+.1f} %"]
        rows[-1].append(_from_counts(name, results))
    print(markdown_table(["run", *cells, "error from counts alone"], rows))
    largest = zip(parts, np.abs(errors).max(0), strict=True)
    print("Largest errors:", ", ".join(f"{part} {100 * error:.1f} %" for part, error in largest))


def _from_counts(name: str, results: Mapping[str, Sequence[Result]]) -> str:
    """The error of a run whose seconds follow from its counts and the rates of the other runs."""
    others = [pair for other, pair in results.items() if other != name]
    if len(others) < 3:
        return "-"
    relative = np.array([np.array(told.training) / real.training for told, real in others])  # for relative errors
    scale = relative.max(axis=0)
    rates = nnls(relative / scale, np.ones(len(others)))[0] / scale
    told, real = results[name]
    return f"{100 * (rates @ told.training / real.training[0] - 1):+.1f} %"


if __name__ == "__main__":
    main()
