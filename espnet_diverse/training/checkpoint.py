"""Checkpoint files: written atomically, read without running code that they contain, and loaded strictly.

A file whose name ends in .safetensors has that format, which holds nothing but named tensors.
"""

import datetime
import os
import pickle
from pathlib import Path
from typing import BinaryIO

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from espnet_diverse.errors import ModelError

# Besides tensors and plain containers, ESPnet's checkpoints hold the statistics of its reporter.
_ALLOWED = [
    np.float64().__reduce__()[0],  # the scalar constructor, which NumPy 2 moved to another module
    np.dtype,
    *(type(np.dtype(name)) for name in ("float64", "float32", "int64", "int32", "bool")),
    datetime.timedelta,
]
_NAMED = 5
SAFETENSORS = ".safetensors"


def save(state: object, path: str | Path) -> None:
    """Write `state` atomically: after a crash or a power failure, either the old or the new file is there, complete."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            write(state, file, path.suffix)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write(state: object, file: BinaryIO, suffix: str = ".pth") -> None:
    """Write `state` in the format of files that end in `suffix`."""
    if suffix != SAFETENSORS:
        torch.save(state, file)
        return
    # The format does not allow tensors that share memory, such as tied embeddings, so they are copied.
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in state.items()}
    file.write(safetensors.torch.save(tensors))


def load(path: str | Path, device: str | torch.device = "cpu") -> dict:
    """Read a checkpoint that holds nothing but tensors, plain containers and ESPnet's statistics.

    Raises:
        ModelError: The file is missing or damaged, is not a checkpoint, or holds other objects, which could run code.
    """
    try:
        if Path(path).suffix == SAFETENSORS:
            tensors = safetensors.torch.load(Path(path).read_bytes())
            return {name: tensor.to(device) for name, tensor in tensors.items()}
        with torch.serialization.safe_globals(_ALLOWED):
            state = torch.load(path, map_location=device, weights_only=True)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from error
    except pickle.UnpicklingError as error:
        raise ModelError(f"{path}: is not a checkpoint or holds objects that are not allowed in one") from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelError(f"{path}: the file is damaged; use another checkpoint or train again") from error
    if not isinstance(state, dict):
        raise ModelError(f"{path}: holds a {type(state).__name__}, not the named parameters of a model")
    return state


def load_strict(model: nn.Module, state: dict[str, Tensor], source: str | Path) -> None:
    """Load `state` into `model`; both must have the same parameters and buffers.

    Args:
        model: The model that the configuration builds.
        state: Parameters and buffers by name.
        source: The file that `state` was read from, for messages.

    Raises:
        ModelError: Parameters are missing, unknown or of another shape; the message lists them.
    """
    expected = model.state_dict()
    missing = [name for name in expected if name not in state]
    extra = [name for name in state if name not in expected]
    reshaped = [
        f"{name} {tuple(state[name].shape)} for {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in state and state[name].shape != tensor.shape
    ]
    faults = {"missing": missing, "extra": extra, "of another shape": reshaped}
    if missing or extra or reshaped:
        said = "; ".join(f"{len(names)} {what}: {_abridged(names)}" for what, names in faults.items() if names)
        raise ModelError(f"{source} does not fit the model of its configuration; parameters {said}")
    model.load_state_dict(state)


def _abridged(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
