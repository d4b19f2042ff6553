"""Fair comparison on a machine that is not quiet: turns, medians, and memory counted to the byte.

Contestants take turns, each round starting with another one, so that a slow minute of the machine meets them all alike.
What is compared is the ratio of their medians; milliseconds only show proportion.

Clock: on a CPU with one thread, the time that the processor spent on this process, which that of other processes does
not enter; with several threads, and on a GPU, the wall clock, on a GPU between two synchronisations.

Page faults: what is freed goes back to the operating system or not by where it lies in the heap, and to take it again
costs a fault for every 4 kB, which is up to a quarter of a training step and differs from run to run.
`keep_freed_memory` spares all contestants that.

Memory: the most bytes that a call had allocated at one time beyond what stood before it; parameters and the state of an
optimizer stood before, activations and gradients did not. On a GPU PyTorch's allocator counts them. On a CPU the
profiler records each allocation and release, and their running sum has a peak, the same in every run. The resident
set of the process would not do: what is freed stays in it, so that it tells of the largest contestant before, not of
the present one. What libraries allocate past PyTorch, as scratch memory of convolutions, is not seen.
"""

import ctypes
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile


@dataclass
class Measured:
    """What one contestant took: seconds of every round, and peak memory in bytes."""

    seconds: list[float] = field(default_factory=list)
    peak: int = 0

    @property
    def median(self) -> float:
        """Median of the rounds, in seconds."""
        return statistics.median(self.seconds)


def compare(
    contestants: dict[str, Callable[[], None]], repeats: int, device: torch.device, memory: bool = True
) -> dict[str, Measured]:
    """Run the contestants in turns and measure them.

    Args:
        contestants: What to call, by name; a call leaves no memory behind.
        repeats: Rounds that count; one more goes before them to warm up.
        device: Where the contestants run.
        memory: Whether to measure memory, which on a CPU keeps a record of every allocation of a call.
    """
    result = {name: Measured() for name in contestants}
    order = list(contestants)
    for call in contestants.values():
        call()
    gc.collect()
    gc.disable()  # or it would fall on whoever runs when it is due
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


def keep_freed_memory() -> bool:
    """Have the C library keep what this process frees instead of giving it back; False where it cannot be told so."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    trim_threshold, mmap_max = -1, -4  # of malloc.h
    return mallopt is not None and bool(mallopt(trim_threshold, 2**31 - 1) and mallopt(mmap_max, 0))


def clock_name(device: torch.device) -> str:
    """What `compare` measures time with."""
    return "CPU time of the process" if _counts_cpu_time(device) else "wall clock"


def _counts_cpu_time(device: torch.device) -> bool:
    return device.type == "cpu" and torch.get_num_threads() == 1


def _seconds(call: Callable[[], None], device: torch.device) -> float:
    clock = time.process_time if _counts_cpu_time(device) else time.perf_counter
    _synchronise(device)
    start = clock()
    call()
    _synchronise(device)
    return clock() - start


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _peak(call: Callable[[], None], device: torch.device) -> int:
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
        live += event["args"]["Bytes"]  # negative where memory is released
        peak = max(peak, live)
    return peak
