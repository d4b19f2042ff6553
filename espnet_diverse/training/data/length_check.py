"""A check before training that no utterance is longer than the attention of the model supports.

The number of positions of an attention depends on frontend and subsampling. Therefore the model is run once on an input
as long as the longest utterance: silence, or one token repeated.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import DataError

_TOKEN = 1  # <unk>; 0 is padding in language models


@dataclass(frozen=True)
class ShapeFile:
    """A shape file of a training or validation set.

    Attributes:
        path: The file; a line is the id of an utterance and its shape, whose first number is the length.
        name: ESPnet's name of the data, for example "speech".
        sound: Whether the data are audio samples or features; otherwise they are tokens.
    """

    path: Path
    name: str
    sound: bool


def _numbers(shape: str) -> tuple[int, ...]:
    return tuple(map(int, shape.split(",")))


def shape_files(args: Namespace) -> list[list[ShapeFile]]:
    """Return the shape files of the training set and of the validation set, from the arguments of ESPnet's command."""
    phases = (
        (args.train_shape_file, args.train_data_path_and_name_and_type),
        (args.valid_shape_file, args.valid_data_path_and_name_and_type),
    )  # the data of conditions come last and have no shapes
    return [
        [ShapeFile(Path(path), name, kind != "text") for path, (_, name, kind) in zip(paths, data, strict=False)]
        for paths, data in phases
    ]


def length_limits(model: nn.Module) -> dict[str, int]:
    """Return the greatest number of positions of each attention of a model that has a limit, by name of the module."""
    limits = {
        name: module.core.supports.max_length
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def check_lengths(model: nn.Module, phases: Sequence[Sequence[ShapeFile]]) -> None:
    """Check that the longest utterances are no longer than the model supports; without limits this costs nothing.

    Args:
        model: The model of a task.
        phases: Shape files of each set, see `shape_files`.

    Raises:
        DataError: An utterance is too long; the message names the set, the utterance and the attention.
    """
    if not length_limits(model):
        return
    for files in phases:
        tables = {file: pack_table(file.path) for file in files}
        for file in files:
            longest = max(tables[file].items(), key=lambda pair: _numbers(pair[1]))[0]
            try:
                _try(model, {shape_file: _numbers(tables[shape_file][longest]) for shape_file in files})
            except _TooLongError as error:
                raise DataError(f"{file.path.parent}: utterance {longest!r}: {error}") from error


class _TooLongError(Exception):
    """An attention has too many positions."""


def _try(model: nn.Module, shapes: dict[ShapeFile, tuple[int, ...]]) -> None:
    """Run the model in evaluation on one utterance with data of the given shapes."""
    device = next(model.parameters()).device
    batch: dict[str, Tensor] = {}
    for file, shape in shapes.items():
        empty = torch.zeros(1, *shape) if file.sound else torch.full((1, shape[0]), _TOKEN)
        batch |= {file.name: empty, f"{file.name}_lengths": torch.tensor([shape[0]])}
    batch |= {condition: torch.zeros(1, 1, dtype=torch.long) for condition in getattr(model, "conditions", {})}
    with _checked(model), torch.no_grad():
        model(**{name: value.to(device) for name, value in batch.items()})


@contextmanager
def _checked(model: nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode, and let its attentions name themselves in errors about their lengths.

    A model that reads kept features reads audio here.
    """

    def check(name: str, module: MultiHeadAttention, query: Tensor, key: Tensor) -> None:
        try:
            module.check_length(query.size(1), key.size(1))
        except ValueError as error:
            raise _TooLongError(f"{name}: {error}") from error

    modes = {module: module.training for module in model.modules()}
    kept_part = getattr(model, "kept_part", None)
    with ExitStack() as hooks:
        for name in length_limits(model):
            module = model.get_submodule(name)
            hook = module.register_forward_pre_hook(lambda module, args, name=name: check(name, module, *args[:2]))
            hooks.callback(hook.remove)
        try:
            model.eval()
            if kept_part:
                model.kept_part = None
            yield
        finally:
            if kept_part:
                model.kept_part = kept_part
            for module, mode in modes.items():
                module.training = mode
