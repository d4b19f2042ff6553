"""Costs of methods, from short trials: seconds of a batch, memory, parameters, and how long a contest takes.

A trial trains two epochs of a few batches each in a folder of its own. The second one is timed, because the first
allocates memory and measures which kernels are faster. Trials run one at a time and while nothing else runs, so that
times can be compared; the trained models are deleted.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from espnet_diverse.contest.programs import FINISHED, Ended, Programs, environment
from espnet_diverse.contest.runs import Run
from espnet_diverse.contest.scores import commit_of_code
from espnet_diverse.cpu.machine import cpu_model
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.errors import ModelError, TrainingError
from espnet_diverse.runs.config import differences
from espnet_diverse.untrusted.whole_files import read_json, read_text

_BATCHES = re.compile(r"\[train\] Batch sampler: .*N-batch=(\d+)")
_GPU_MEMORY = "gpu_max_cached_mem_GB"  # the name that ESPnet gives it; it counts in GiB
_GIB = 2**30


@dataclass(frozen=True)
class Cost:
    """The cost of a method.

    Attributes:
        step: Seconds of a batch in training: reading, forward and backward pass, and its share of an update.
        memory: Peak memory in GB of 10^9 bytes: of the GPU, or the resident memory of the process on a CPU.
        parameters: Number of parameters of the model.
        batches: Number of batches of an epoch over all training data.
        validation: Seconds of the validation after an epoch.
        start: Seconds before and after training.
        flops: Floating-point operations, as in `analysis.comparison.Size`; 0 where an earlier version has not counted.
        example: Bytes, as `memory` there.
    """

    step: float
    memory: float
    parameters: int
    batches: int
    validation: float
    start: float
    flops: float = 0
    example: float = 0

    def seconds(self, epochs: int, batches: int | None = None) -> float:
        """Estimate the seconds of training for some epochs, each with `batches` batches if that is given."""
        return self.start + epochs * ((batches or self.batches) * self.step + self.validation)


def measure(runs: Sequence[Run], programs: Programs, path: Path, batches: int) -> dict[str, Cost] | None:
    """Measure the costs of the methods that have none yet; of all methods, if the kept costs are out of date.

    Args:
        runs: A run of each method.
        programs: Runs the commands.
        path: File that keeps the costs.
        batches: Number of batches of an epoch of the trials.

    Returns:
        Costs by method; None if the programs were stopped.

    Raises:
        TrainingError: A trial failed; its log is named.
    """
    former, costs = _kept(path)
    settings = _settings(runs[0].shared["ngpu"], path)
    if costs and (changed := differences(former, settings)):
        key, change = next(iter(changed.items()))
        print(f"{path}: has the costs of another {key}: {change}; all methods are timed again", flush=True)
        costs = {}
    trials: dict[str, tuple[Path, Ended]] = {}
    try:
        for run in runs:
            if run.name not in costs:
                print(f"{run.name}: timing {2 * batches} batches", flush=True)
                tried = _tried(run, programs, batches)
                if programs.stopped:
                    return None
                trials[run.name] = tried
    finally:  # those that have ended are kept; after all of them, see `Ended.memory`
        for name, (folder, ended) in trials.items():
            costs[name] = _read(folder, ended.seconds, ended.memory)
            shutil.rmtree(folder)
        if trials:
            methods = {name: asdict(cost) for name, cost in costs.items()}
            write_text(path, json.dumps({"settings": settings, "methods": methods}, indent=1) + "\n")
    return costs


def read_costs(path: Path) -> dict[str, Cost]:
    """Read the costs that were measured, all with the same settings; none if the file is missing.

    Raises:
        ModelError: It is damaged.
    """
    return _kept(path)[1]


def gpu_model() -> str:
    """Name of the first GPU, such as "NVIDIA H100 80GB HBM3"; "" if there is none."""
    asked = "import torch; print(torch.cuda.get_device_name())"  # which takes memory of the GPU until its process ends
    return subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False).stdout.strip()


def _kept(path: Path) -> tuple[dict, dict[str, Cost]]:
    """The settings of the trials, see `_settings`, and the costs by method."""
    if not path.is_file():
        return {}, {}
    try:
        content = read_json(path)
        return dict(content["settings"]), {name: Cost(**entry) for name, entry in content["methods"].items()}
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise ModelError(f"{path}: is damaged ({error}); delete it, and the methods are timed again") from error


def _settings(ngpu: int, path: Path) -> dict[str, int | str]:
    """Settings that affect the costs in `path` and may change within a contest, unlike methods, budget and data."""
    return {
        "ngpu": ngpu,
        "processor": gpu_model() if ngpu else cpu_model(),
        "threads": environment()["OMP_NUM_THREADS"],
        "commit": commit_of_code(path),
        "torch": version("torch"),
    }


def _tried(run: Run, programs: Programs, batches: int) -> tuple[Path, Ended]:
    """The folder of the trial of a method, and how it ended.

    Raises:
        TrainingError: It failed.
    """
    command, folder = run.trial(batches)
    log = folder.with_name(f"{folder.name}.log")
    shutil.rmtree(folder, ignore_errors=True)
    ended = programs.run(run.preparation(), run.place, log)
    if ended.code in FINISHED:
        ended = programs.run(command, run.place, log)
    if ended.code not in FINISHED and not programs.stopped:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")
        message = next((line for line in reversed(lines) if ": error: " in line), lines[-1])
        raise TrainingError(f"the trial of {run.name} failed; its log, {log}, says: {message}")
    return folder, ended


def _read(folder: Path, seconds: float, memory: int) -> Cost:
    """The cost that a trial shows, given its seconds and the memory of its process in bytes."""
    from espnet_diverse.analysis.comparison import read_size
    from espnet_diverse.runs.checkpoint import load_run

    statistics: Mapping[int, Mapping] = load_run(folder)[0]["reporter"]["stats"]
    second = statistics[2]
    spent = sum(_seconds(phase) for epoch in statistics.values() for phase in epoch.values())
    on_gpu = second["train"].get(_GPU_MEMORY)
    match = _BATCHES.search(read_text(folder / "train.log"))
    if match is None:
        raise TrainingError(f"{folder}/train.log does not state the number of batches; give --timing 0")
    size = read_size(folder)
    batches = second["train"]["total_count"] - statistics[1]["train"]["total_count"]
    return Cost(
        step=_seconds(second["train"]) / batches,
        memory=(float(on_gpu) * _GIB if on_gpu else memory) / 1e9,
        parameters=size.parameters,
        batches=int(match[1]),
        validation=_seconds(second["valid"]),
        start=max(0.0, seconds - spent),
        flops=size.flops,
        example=size.memory,
    )


def _seconds(phase: Mapping) -> float:
    """Seconds of a phase of an epoch, as ESPnet's reporter keeps them in a checkpoint."""
    return float(phase["time"]["__timedelta_seconds__"])
