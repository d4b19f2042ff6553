"""Choice of the library that multiplies matrices on this CPU, oneDNN or MKL, by a measurement.

The faster library depends on the CPU and on the sizes: in measurements oneDNN took between half and nearly twice the
time of MKL. Both are therefore timed once, for a fraction of a second, and the choice is stored in a file for each kind
of CPU, so that all processes use the same library. oneDNN is used unless MKL is clearly faster. In a search, where
weights do not change, "columns" is MKL with weights whose columns are contiguous. A training run keeps
the library that it began with in its own folder (`training/checkpoints/run_kernels.py`).
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.cpu.machine import KERNELS, KERNELS_VARIABLE, cpu_kind
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.linear import AVAILABLE, arranged, column_major, linear, product
from espnet_diverse.portable import cache_folder
from espnet_diverse.untrusted.whole_files import read_json

_SMALL = 2**15  # weights of a layer; 128 by 128 is small, 256 by 256 is not
_SIZES = {"small": (128, 128), "large": (256, 512)}
_ROWS = {"training": [1024], "search": [5, 40]}  # a search: the hypotheses of one utterance, and of 8
_CLEARLY = 1.1  # times MKL's time, beyond which oneDNN is not taken
_ROUNDS = 15
_LIBRARIES = {"training": ["onednn", "mkl"], "search": ["onednn", "mkl", "columns"]}
_PLACES = [f"{place} {size}" for place in _ROWS for size in _SIZES]
_taken: dict[str, str] = {}


def library(weight: Tensor, place: str) -> str:
    """Return what a layer with `weight` (out, in) should be computed by: "onednn", "mkl" or, in a search, "columns".

    Args:
        weight: Weight of the layer.
        place: "training": many rows, forward and backward; "search": few rows, weights that do not change.

    Raises:
        ConfigError: The environment variable `KERNELS_VARIABLE` has a value that is not in `KERNELS`.
    """
    size = "small" if weight.numel() < _SMALL else "large"
    return (_taken or choice())[f"{place} {size}"] if AVAILABLE else "mkl"


def choice() -> dict[str, str]:
    """Library by place and size, such as "training small", that this process uses: the requested or the faster one.

    Raises:
        ConfigError: The environment variable `KERNELS_VARIABLE` has a value that is not in `KERNELS`.
    """
    wanted = asked()
    if wanted == "auto" and AVAILABLE:
        return chosen(_cache_file())
    return dict.fromkeys(_PLACES, wanted if wanted != "auto" else "mkl")


def asked() -> str:
    """The user's choice, one of `KERNELS`.

    Raises:
        ConfigError: The environment variable `KERNELS_VARIABLE` has another value.
    """
    library = os.environ.get(KERNELS_VARIABLE, "auto")
    if library not in KERNELS:
        raise ConfigError(f"{KERNELS_VARIABLE}={library} is not allowed; give one of {' '.join(KERNELS)}")
    return library


@contextmanager
def taken(choice: Mapping[str, str]) -> Iterator[None]:
    """Use another choice than this process's while the block runs."""
    before = dict(_taken)
    _taken.update(choice)
    try:
        yield
    finally:
        _taken.clear()
        _taken.update(before)


def load_with[Loaded](choice: Mapping[str, str], load: Callable[[], Loaded]) -> Loaded:
    """Return `load()`, after taking the choice of another process, so that both sum in the same order."""
    _taken.update(choice)
    return load()


@lru_cache
def chosen(file: Path) -> dict[str, str]:
    """The library by place and size, from `file`, or measured and written there; the first process that writes wins."""
    if (saved := read_choice(file)) is not None:
        return saved
    measured = {name: _fastest(*name.split()) for name in _PLACES}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.", encoding="utf-8") as written:
            written.write(json.dumps(measured, indent=1))
            written.flush()
            try:
                os.link(written.name, file)
            except FileExistsError:
                if (saved := read_choice(file)) is not None:
                    return saved
                file.unlink()  # damaged: the next process measures and writes it
    except OSError:  # no folder that can be written: the choice holds for this process
        pass
    return measured


def read_choice(file: Path) -> dict[str, str] | None:
    """The choice in a file, the library by place and size; None if the file is missing or damaged."""
    try:
        libraries = read_json(file)
    except (OSError, ValueError):
        return None
    sound = isinstance(libraries, dict) and all(libraries.get(name) in _LIBRARIES[name.split()[0]] for name in _PLACES)
    return libraries if sound else None


def _cache_file() -> Path:
    """The file of this kind of CPU and version of PyTorch."""
    kind = "\n".join([cpu_kind(), torch.backends.cpu.get_cpu_capability(), torch.__version__])
    try:
        folder = cache_folder()
    except FileNotFoundError:
        folder = Path(os.devnull)  # nothing is read or written: the choice holds for this process
    return folder / f"products-{hashlib.sha256(kind.encode()).hexdigest()[:16]}.json"


@torch.inference_mode(False)  # a search may be the first that asks
@torch.enable_grad()
def _fastest(place: str, size: str) -> str:
    """Time the libraries in turns; the shortest times decide, as other work on the machine can only lengthen them."""
    columns, outputs = _SIZES[size]
    generator = torch.Generator().manual_seed(0)  # the generators of training stay as they are
    shapes = (outputs, columns), (outputs,), *((rows, columns) for rows in _ROWS[place])
    weight, bias, *inputs = (torch.randn(shape, generator=generator) for shape in shapes)
    calls: dict[str, Callable[[], object]]
    if place == "training":
        parameters = [y.requires_grad_() for y in (*inputs, weight, bias)]
        gradient = torch.randn(_ROWS[place][0], outputs, generator=generator)
        calls = {
            "onednn": lambda: torch.autograd.grad(linear(*parameters), parameters, gradient),
            "mkl": lambda: torch.autograd.grad(F.linear(*parameters), parameters, gradient),
        }
    else:
        rearranged, transposed = arranged(weight), column_major(weight)
        calls = {
            "onednn": lambda: [product(x, rearranged, bias) for x in inputs],
            "mkl": lambda: [F.linear(x, weight, bias) for x in inputs],
            "columns": lambda: [F.linear(x, transposed, bias) for x in inputs],
        }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    shortest = {name: min(durations) for name, durations in times.items()}
    onednn = shortest.pop("onednn")
    best = min(shortest, key=shortest.__getitem__)
    return best if onednn > _CLEARLY * shortest[best] else "onednn"
