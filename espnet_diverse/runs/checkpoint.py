"""Checkpoint files: written atomically, read without running code that they contain, and loaded strictly.

A file whose name ends in .safetensors has that format, which holds nothing but named tensors. Every file has a digest
of its content (`file_digest.py`), which is checked when it is read.

A run keeps two generations of its state, `CHECKPOINT` and the one saved before it, `PREVIOUS`. What is frozen in its
model has a file of its own (`frozen_part.py`), which is read with the others: what `load` returns is whole.
"""

import datetime
import logging
import pickle
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from espnet_diverse.data.files.atomic_files import scratch_directory, staged_file
from espnet_diverse.data.files.disk_space import NO_ROOM
from espnet_diverse.errors import ModelError, abridged
from espnet_diverse.nets.building import fill
from espnet_diverse.runs.file_digest import SAFETENSORS, add_digest, check_digest, safetensors_with_digest
from espnet_diverse.runs.stored import checkpoint_schema, frozen_part
from espnet_diverse.runs.stored.checkpoint_archive import check_archive
from espnet_diverse.runs.stored.schema import MisfitError

log = logging.getLogger(__name__)

# Besides tensors and plain containers, ESPnet's checkpoints hold the statistics of its reporter.
_ALLOWED = [
    np.float64().__reduce__()[0],  # the scalar constructor, which NumPy 2 moved to another module
    np.dtype,
    *(type(np.dtype(name)) for name in ("float64", "float32", "int64", "int32", "bool")),
    datetime.timedelta,
]
_MOVED = {".out.0.": ".out.", ".out.1.": ".pos_enc."}
_UNUSED = re.compile(r"\bchanges\.[0-9]+\.shared\.weight$")  # a router of one shared head has no effect
_BY_LAYER, _CONSTANT = "lambda_init.value", 0.8  # weights of differential attention without it have the constant
CHECKPOINT = "checkpoint.pth"
PREVIOUS = "checkpoint.previous.pth"


def save(state: object, path: str | Path, former: str | Path | None = None) -> None:
    """Write `state` atomically: after a crash or a power failure, either the old or the new file is there, complete.

    Args:
        state: The state to save.
        path: The file.
        former: Path to keep a file under that is already at `path`, on the same file system; by default it is replaced.

    Raises:
        ModelError: There is no room for the file; the old file at `path` is still there.
    """
    path = Path(path)
    content = BytesIO()
    write(state, content, path.suffix)
    try:
        with staged_file(path, durable=True) as temporary:
            temporary.write_bytes(content.getbuffer())
            if former is not None and path.exists():
                _keep(path, Path(former))
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise ModelError(_without_room(path, content.getbuffer().nbytes, error.strerror)) from error


def _keep(path: Path, former: Path) -> None:
    """Keep a file as `former` too; with hard links there is a file at `path` at any time."""
    with scratch_directory(former) as folder:
        second = folder / former.name
        try:
            second.hardlink_to(path)
        except OSError:
            path.replace(former)
            return
        second.replace(former)


def _without_room(path: Path, size: int, reason: str) -> str:
    free = shutil.disk_usage(path.parent).free
    lack = f"{size - free} bytes are missing" if free < size else "a quota or limit of this process is lower"
    state = "what was saved before is as it was" if path.exists() else "nothing of it is left"
    return (
        f"{path}: cannot be written ({reason}): it takes {size} bytes, {free} are free, {lack}; {state}: make room and "
        "give the same command again"
    )


def write(state: object, file: BinaryIO, suffix: str = ".pth") -> None:
    """Write `state` and its digest in the format of files that end in `suffix`; `file` must be readable and empty."""
    if suffix != SAFETENSORS:
        torch.save(state, file)
        add_digest(file)
        return
    # The format does not allow tensors that share memory, such as tied embeddings, so they are copied.
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in state.items()}
    file.write(safetensors_with_digest(tensors))


def load(path: str | Path, device: str | torch.device = "cpu") -> dict:
    """Read weights, or the state of a run: tensors, plain containers and ESPnet's statistics.

    From a checkpoint of Lightning, which ESPnet3 trains with, only the weights are read.

    Raises:
        ModelError: The file is missing, damaged or altered, is not a checkpoint, or holds other objects, which could
            run code, or a value that is not allowed in its place, see `checkpoint_schema`; or the file with the frozen
            part of its model is missing or another.
    """
    state = _read(path, device)
    if digests := state.get(frozen_part.FROZEN) if checkpoint_schema.is_state(state) else None:
        state["model"] = _frozen(Path(path), digests, device) | state.get("model", {})
    return state


def _frozen(path: Path, digests: Mapping[str, str], device: str | torch.device) -> dict:
    """The frozen part of the model in `path`, from the folder of this file or of the file that it links to."""
    places = [frozen_part.file_beside(candidate, digests) for candidate in (path, path.resolve())]
    file = next((place for place in places if place.is_file()), None)
    todo = "copy it from the directory of the run"
    if file is None:
        raise ModelError(f"{places[0]}: is missing, and {path.name} lacks the frozen part of the model in it; {todo}")
    tensors = _read(file, device)
    if frozen_part.tensor_digests(tensors) != digests:
        raise ModelError(f"{file}: is altered, as it is not the frozen part of the model in {path.name}; {todo}")
    return tensors


def _read(path: str | Path, device: str | torch.device) -> dict:
    """Read a file alone, see `load`."""
    if Path(path).exists() and not Path(path).is_file():
        raise ModelError(f"{path}: cannot be read (not a regular file)")
    try:
        check_digest(Path(path))
        if Path(path).suffix == SAFETENSORS:
            tensors = safetensors.torch.load(Path(path).read_bytes())
            return {name: tensor.to(device) for name, tensor in tensors.items()}
        check_archive(Path(path))
        with torch.serialization.safe_globals(_ALLOWED):
            state = torch.load(path, map_location=device, weights_only=True)
    except (FileNotFoundError, PermissionError) as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from error
    except pickle.UnpicklingError as error:
        raise ModelError(f"{path}: is not a checkpoint or holds objects that are not allowed in one") from error
    except ModelError:
        raise
    except MemoryError as error:
        raise ModelError(f"{path}: the memory of this machine is too small to read it") from error
    except Exception as error:  # damage makes the restricted unpickler raise any of them, such as IndexError
        raise ModelError(f"{path}: the file is damaged; use another checkpoint or train again") from error
    if not isinstance(state, dict):
        raise ModelError(f"{path}: holds a {type(state).__name__}, not the named parameters of a model")
    if isinstance(state.get("state_dict"), dict):
        state = {"model": state["state_dict"]}
    with _named(path):
        checkpoint_schema.check_content(state)
    return state


def load_weights(path: str | Path, device: str | torch.device = "cpu") -> dict[str, Tensor]:
    """Read the parameters and buffers of a model, from a file that has nothing else or from a training checkpoint.

    Raises:
        ModelError: See `load`; or there are no weights in the checkpoint, or NaN is among them.
    """
    state = load(path, device)
    if checkpoint_schema.is_state(state):
        if "model" not in state:
            todo = "give a file of weights in the same folder, such as 1epoch.pth"
            raise ModelError(f"{path}: holds the state of a run without the parameters of a model; {todo}")
        state = _with_products(state, path)
    if wrong := [name for name, tensor in state.items() if tensor.is_floating_point() and tensor.isnan().any()]:
        raise ModelError(f"{path}: NaN is in {abridged(wrong)}; use weights of an earlier epoch")
    return {name: tensor.detach() for name, tensor in state.items()}


def _with_products(state: dict, path: str | Path) -> dict[str, Tensor]:
    """The weights in a state in the form of evaluation, where adapters of low rank are part of them."""
    weights = state["model"]
    for name, how in (state.get(frozen_part.LOW_RANK) or {}).items():
        try:
            weights[f"{name}.weight"] = frozen_part.with_product(weights, name, *how)
        except (KeyError, RuntimeError) as error:
            raise ModelError(f"{path}: lacks parameters of the adapter of {name}, or they do not fit it") from error
    return weights


def has_run(run: Path) -> bool:
    """Return whether a directory has a state that a run has saved."""
    return (run / CHECKPOINT).exists() or (run / PREVIOUS).exists()


def load_run(run: Path, device: str | torch.device = "cpu") -> tuple[dict, Path]:
    """The newest undamaged state that a run has saved, and its file; a warning is logged if it is not the newest file.

    Raises:
        ModelError: All files of a state are damaged; the message is about the newest.
    """
    newest, previous = run / CHECKPOINT, run / PREVIOUS
    try:
        return load(newest, device), newest
    except ModelError as error:
        try:
            state = load(previous, device)
        except ModelError:
            raise error from None
        log.warning("%s; taken instead: %s, which was saved before it", error, previous.name)
        return state, previous


def check_fit(
    state: Mapping, source: str | Path, model: nn.Module, optimizers: Sequence[Optimizer], schedulers: Sequence
) -> None:
    """Check that the state of a run fits its training, before any of it is used.

    Args:
        state: The state, as `load` returns it.
        source: The file that it was read from, for messages.
        model: The model.
        optimizers: Its optimizers.
        schedulers: Schedulers of their learning rates, or None for each.

    Raises:
        ModelError: Parameters are missing, unknown, or of another shape or type, or a value is not allowed where it is.
    """
    if faults := misfits(model, state.get("model", {})):
        raise ModelError(f"{source}: does not fit the model of this configuration; parameters {faults}")
    with _named(source):
        checkpoint_schema.check_fit(state, optimizers, schedulers)


@contextmanager
def _named(source: str | Path) -> Iterator[None]:
    """Name the file in errors of a schema."""
    try:
        yield
    except MisfitError as error:
        raise ModelError(f"{source}: {error}; the file is not as training writes it, use another one") from error


def load_strict(model: nn.Module, state: dict[str, Tensor], source: str | Path) -> None:
    """Load `state` into `model`; both must have the same parameters and buffers.

    Args:
        model: The model that the configuration builds; parameters without values, see `nets.building`, take the
            tensors of `state` themselves.
        state: Parameters and buffers by name.
        source: The file that `state` was read from, for messages.

    Raises:
        ModelError: Parameters are missing, unknown, or of another shape or type; the message lists them.
    """
    if faults := misfits(model, state):
        raise ModelError(f"{source} does not fit the model of its configuration; parameters {faults}")
    state = with_present_parameters(state, model.state_dict())
    fill(model, state)
    model.load_state_dict(state)


def misfits(model: nn.Module, state: dict[str, Tensor]) -> str:
    """Parameters and buffers of `state` that are missing, unknown, or do not fit those of `model`, as text."""
    expected = model.state_dict()
    state = with_present_parameters(state, expected)
    missing = [name for name in expected if name not in state]
    extra = [name for name in state if name not in expected]
    common = {name: misfit(state[name], tensor) for name, tensor in expected.items() if name in state}
    unfit = [f"{name} {message}" for name, message in common.items() if message]
    faults = {"missing": missing, "extra": extra, "of another shape or type": unfit}
    return "; ".join(f"{len(names)} {reason}: {abridged(names)}" for reason, names in faults.items() if names)


def misfit(value: Tensor, expected: Tensor) -> str:
    """Difference in shape or kind of numbers between a tensor and the one that it replaces, as text; "" if it fits.

    PyTorch would convert integers to floating-point numbers, such as weights that another program quantised.
    """
    if value.shape != expected.shape:
        return f"{tuple(value.shape)} for {tuple(expected.shape)}"
    return "" if value.is_floating_point() == expected.is_floating_point() else f"{value.dtype} for {expected.dtype}"


def with_present_parameters(state: Mapping[str, Tensor], expected: Collection[str]) -> dict[str, Tensor]:
    """Parameters by the names that they have since ESPnet 202611, which renamed those at the end of subsampling.

    Parameters without effect, which earlier versions had, are left out, and constants that depend on the layer now are
    added.

    Args:
        state: Parameters and buffers by name.
        expected: Names in the model that reads them.
    """
    parameters = {}
    for name, value in state.items():
        present = name
        for former, moved in _MOVED.items():
            present = present if present in expected else name.replace(former, moved)
        if present in expected or not (_UNUSED.search(name) and value.shape[:-1] == (1,)):
            parameters[present if present in expected and present not in state else name] = value
    for name in expected:
        owner = name.removesuffix(_BY_LAYER)
        if owner != name and name not in parameters and any(other.startswith(owner) for other in parameters):
            parameters[name] = torch.tensor(_CONSTANT, dtype=torch.float64)
    return parameters
