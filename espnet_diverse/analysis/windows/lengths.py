"""Time, memory and operations of an encoder with and without windows, against the length of the audio.

Both encoders take turns, and the time of each is the median of its rounds: CPU time of the process on one thread, which
leaves out other processes. Memory is the peak of the tensors that a pass makes, and operations are counted, both by
`runs.operations.Counter`; they do not depend on the load of the machine. The audio is noise.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import torch
from espnet2.train.abs_espnet_model import AbsESPnetModel
from numpy.typing import NDArray

from espnet_diverse import portable
from espnet_diverse.analysis.windows.encoder_heads import encoder_heads, set_windows
from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.decoding.encoder.encoding import Encoding
from espnet_diverse.decoding.encoder.long_audio import batch_of_one
from espnet_diverse.decoding.encoder.quiet import quiet
from espnet_diverse.errors import UserError
from espnet_diverse.functional.copies import copied
from espnet_diverse.progress import progress
from espnet_diverse.runs.operations import Counter, Counts
from espnet_diverse.upstream.layers import TooShortUttError

NAMES = BEFORE, AFTER = ("all positions", "windows")
_ROUNDS, _SECONDS = 5, 60.0  # rounds at most, and about how many seconds they may take at one length
_SHARE = 0.8  # of the free memory, that a pass may need


@dataclass
class Cost:
    """Cost of the encoder at one length.

    Attributes:
        seconds: Length of the audio.
        positions: Number of positions of the encoder.
        times: CPU seconds of each round, by the name of the encoder, of `NAMES`.
        counts: Operations and peak memory, by the name of the encoder.
        left_out: Why an encoder, or both under the name "", was not measured.
    """

    seconds: float
    positions: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def time_ratio(self) -> float | None:
        """Return the time with windows divided by the time without, or None if either was not measured."""
        times = [median(self.times[name]) for name in NAMES if name in self.times]
        return times[1] / times[0] if len(times) == 2 else None

    def memory_ratio(self) -> float | None:
        """Return the memory with windows divided by the memory without, or None if either was not measured."""
        peaks = [self.counts[name].peak for name in NAMES if name in self.counts]
        return peaks[1] / peaks[0] if len(peaks) == 2 else None


def measure_lengths(model: AbsESPnetModel, windows: NDArray, rate: int, lengths: Sequence[float]) -> list[Cost]:
    """Measure the encoder of a model at some lengths, on a CPU with one thread.

    Args:
        model: The model, whose heads have windows afterwards.
        windows: Width of each head (N, H).
        rate: Sampling rate in Hz of the audio that the model reads.
        lengths: Lengths in seconds.
    """
    encoding, layers, costs = Encoding(model.eval(), "cpu"), encoder_heads(model), []
    with _one_thread():
        for seconds in progress(sorted(lengths), "time against length", unit="length"):
            cost = Cost(seconds)
            samples = 0.1 * np.random.default_rng(0).standard_normal(round(seconds * rate), np.float32)
            try:
                features = encoding.features(samples)
            except (UserError, TooShortUttError) as error:
                cost.left_out[""] = str(error)
            else:
                _measure(cost, _passes(encoding, layers, windows, features), costs)
            costs.append(cost)
    return costs


def _passes(
    encoding: Encoding, layers: Sequence[MultiHeadAttention], windows: NDArray, features: NDArray
) -> dict[str, Callable[[], int]]:
    """Return passes of the encoder over features (T, F) by name; they return the number of positions."""

    def encode(widths: NDArray | None) -> int:
        set_windows(layers, widths)
        with torch.no_grad(), quiet():  # not in inference mode, in which the counter sees no products
            output = encoding.encoder(*batch_of_one(copied(features, "cpu")))[0]
        return (output[0] if isinstance(output, tuple) else output).size(1)  # of an encoder with intermediate losses

    return {BEFORE: lambda: encode(None), AFTER: lambda: encode(windows)}


def _measure(cost: Cost, passes: Mapping[str, Callable[[], int]], earlier: Sequence[Cost]) -> None:
    """Measure the passes that fit into memory; the first pass of each is counted and not timed."""
    start = time.process_time()
    for name, call in passes.items():
        known = [(previous.seconds, previous.counts[name].peak) for previous in earlier if name in previous.counts]
        needed, free = _expected_peak(cost.seconds, known[-2:]), _free()
        if needed is not None and needed > _SHARE * free:
            sizes = f"{needed / 1e9:.0f} GB by the shorter lengths, and {free / 1e9:.0f} GB are free"
            cost.left_out[name] = f"a pass would need about {sizes}"
            continue
        with Counter() as counter:
            cost.positions = call()
        cost.counts[name] = counter.counts()
    order = list(cost.counts)
    rounds = _ROUNDS if not order else int(_SECONDS / max(time.process_time() - start, 1e-9))
    for _ in range(min(max(rounds, 1), _ROUNDS)):
        for name in order:
            start = time.process_time()
            passes[name]()
            cost.times.setdefault(name, []).append(time.process_time() - start)
        order.append(order.pop(0)) if order else None


def _expected_peak(seconds: float, known: Sequence[tuple[float, float]]) -> float | None:
    """Return the peak memory at a length by those at one or two shorter ones: b T^2, or a T + b T^2."""
    if not known:
        return None
    if len(known) == 1:
        return known[0][1] * (seconds / known[0][0]) ** 2
    lengths, peaks = np.array(known, dtype=float).T
    line, square = np.linalg.solve(np.stack([lengths, lengths**2], axis=1), peaks)
    return float(line * seconds + max(square, 0.0) * seconds**2)


def _free() -> float:
    """Return the memory in bytes that processes can still get; infinite where the system does not tell."""
    file = portable.PROC / "meminfo"
    match = re.search(r"MemAvailable:\s+(\d+) kB", file.read_text(encoding="ascii")) if file.is_file() else None
    return 1024.0 * int(match[1]) if match else math.inf


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
