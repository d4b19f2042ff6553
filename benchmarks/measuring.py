"""Measure time and memory of contestants on a machine with other load.

Turns: each round runs every contestant and starts with another one, so that slow phases of the machine affect all
alike. The result is the ratio of medians over the rounds; absolute times depend on the load.

Time: on a CPU with one thread, the CPU time of this process, which excludes other processes; with several threads, and
on a GPU (between two synchronisations), the wall clock.

Page faults: whether freed memory is returned to the operating system depends on its place in the heap. To allocate it
again costs a page fault per 4 kB, up to a quarter of the time of a training step, with variation between runs.
`espnet_diverse.cpu.allocator`, which our programs use, avoids this for all contestants.

Memory: the peak of the memory that a call allocates in addition to what was allocated before it: activations and
gradients, but not parameters and optimizer states. On a GPU it is counted by PyTorch's allocator. On a CPU it is the
peak of the running sum of all allocations and releases in PyTorch's profiler, which is the same in every run. The
resident set of the process is not suitable: it retains freed memory, so that it shows the largest contestant before.
Memory that libraries allocate without PyTorch, such as scratch memory of convolutions, is not counted.
"""

import argparse
import gc
import json
import os
import platform
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from espnet_diverse.cpu.allocator import IN_TRAINING, keep_freed_memory
from espnet_diverse.cpu.machine import cpu_model


@dataclass
class Measured:
    """Measurements of a contestant.

    Attributes:
        seconds: Seconds of each round; none if the memory of the GPU was too small.
        peak: Peak memory in bytes.
        amount: What a round does, such as seconds of audio; 1 where all contestants do the same.
    """

    seconds: list[float] = field(default_factory=list)
    peak: int = 0
    amount: float = 1.0

    @property
    def cost(self) -> float:
        """Median of the rounds in seconds, for an amount of 1; 0 if there is none."""
        return statistics.median(self.seconds) / self.amount if self.seconds else 0.0


def compare(
    contestants: Mapping[str, Callable[[], object]], repeats: int, device: torch.device, memory: bool = True
) -> dict[str, Measured]:
    """Run the contestants in turns and measure them.

    Args:
        contestants: Functions to measure, by name; they must free what they allocate.
        repeats: Number of measured rounds; one more before them is for warming up.
        device: Device of the contestants.
        memory: Whether to measure memory. On a CPU this records every allocation of a call, which is slow.

    A contestant for which the memory of the GPU is too small takes no part: it has no rounds.
    """
    result = {name: Measured() for name in contestants}
    contestants = {name: call for name, call in contestants.items() if _fits(call)}
    order = list(contestants)
    gc.collect()
    gc.disable()  # otherwise it would run during one of the contestants
    try:
        for _ in range(repeats):
            for name in order:
                result[name].seconds.append(_seconds(contestants[name], device))
            order.append(order.pop(0))
        for name, call in contestants.items() if memory else ():
            result[name].peak = _peak(call, device)
    finally:
        gc.enable()
    return result


def add_keep_memory(parser: argparse.ArgumentParser) -> None:
    """Declare `--keep_memory`, for `keep_memory`."""
    parser.add_argument(
        "--keep_memory", action="store_true", help="keep freed memory as training does, with fewer page faults (glibc)"
    )


def keep_memory(args: argparse.Namespace) -> None:
    """Keep freed memory in the process, if `--keep_memory` asks for it; it ends the program without glibc."""
    if args.keep_memory and not keep_freed_memory(IN_TRAINING):
        sys.exit("--keep_memory needs glibc, whose malloc can be told to keep what is freed")


def conditions(rounds: str, device: torch.device, threads: int = 1, dtype: str = "float32") -> list[str]:
    """Let PyTorch compute in some threads of the CPU; return the command and the conditions as lines of Markdown.

    Args:
        rounds: What is printed of the rounds, such as "ratios of medians of 7 rounds".
        device: Device of the contestants.
        threads: Number of threads; 0: PyTorch's own choice.
        dtype: Precision of the contestants.
    """
    if threads:
        torch.set_num_threads(threads)
    on_cpu = f"{torch.get_num_threads()} CPU thread(s) of {cpu_name()}"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else on_cpu
    versions = ", ".join(f"{package} {version(package)}" for package in ("torch", "espnet", "espnet_diverse"))
    command = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]
    return [
        f"    {shlex.join(command)}",
        "",
        f"{date.today()}, {name}, {dtype}, {versions}, Python {platform.python_version()}; at the start the load "
        f"of the machine was {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; {rounds}, {clock_name(device)}.",
    ]


def cpu_name() -> str:
    """Model of the CPU, as far as the machine tells it, and the widest instructions that PyTorch uses on it."""
    return f"{cpu_model()} ({torch.backends.cpu.get_cpu_capability()})"


def clock_name(device: torch.device) -> str:
    """Name of the clock that `compare` uses."""
    return "CPU time of the process" if _counts_cpu_time(device) else "wall clock"


def _counts_cpu_time(device: torch.device) -> bool:
    return device.type == "cpu" and torch.get_num_threads() == 1


def _fits(call: Callable[[], object]) -> bool:
    """Warm up; whether the memory of the GPU is large enough."""
    try:
        call()
    except torch.OutOfMemoryError:
        gc.collect()
        torch.cuda.empty_cache()
        return False
    return True


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    clock = time.process_time if _counts_cpu_time(device) else time.perf_counter
    _synchronise(device)
    start = clock()
    call()
    _synchronise(device)
    return clock() - start


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _peak(call: Callable[[], object], device: torch.device) -> int:
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record:
        call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        record.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    live = peak = 0
    for event in sorted((event for event in events if event["name"] == "[memory]"), key=lambda event: event["ts"]):
        live += event["args"]["Bytes"]  # negative for a release
        peak = max(peak, live)
    return peak
