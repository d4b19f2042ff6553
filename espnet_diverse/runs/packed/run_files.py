"""The directory of a model made from a run: weights, configuration, vocabularies and statistics of the features."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from torch import nn

from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.output_paths import mark_prepared
from espnet_diverse.errors import UserError
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import save
from espnet_diverse.text.vocabulary import MODEL_FILES, Vocabulary
from espnet_diverse.untrusted.foreign_config import named_files
from espnet_diverse.untrusted.whole_files import read_bytes

VOCABULARY = ("tokens.txt", "tokens.yaml")
"""Files of a vocabulary, without that of its model."""


def write_model(
    model: nn.Module, config: dict, model_dir: Path, weights: Path, command: str, train: Mapping | None = None
) -> None:
    """Write the directory of a model with the mark of the command that writes it, completely or not at all.

    It replaces a directory that the command has written before, whose hidden files are kept.

    Args:
        model: The model.
        config: Its configuration, in which file names are changed to the names of the copies.
        model_dir: Directory of the run that the model comes from.
        weights: File to write the weights to, in the directory of the model; `data.output_paths.check_prepared` has
            accepted it.
        command: The command.
        train: The configuration for further training, written as train.yaml; by default none is written.

    Raises:
        DataError: The directory holds the working directory, or another process is writing it.
        ModelError: There is no room for the weights.
    """
    output_dir = weights.parent
    with staged_directory(output_dir) as folder:
        copy_files(config, model_dir, folder)
        for section, key in named_files(config):
            section[key] = str(output_dir.absolute() / section[key])
        checkpoint.save(model.state_dict(), folder / weights.name)
        save(config, folder / "config.yaml")
        if train is not None:
            save(dict(train), folder / "train.yaml")
        _copy_hidden(output_dir, folder)
        mark_prepared(folder, command)


def copy_files(config: dict, model_dir: Path, folder: Path) -> None:
    """Copy the files that loading the model needs, and change their names in `config` to the names in `folder`.

    Args:
        config: Configuration of the run, as `read_config` returns it.
        model_dir: Directory of the run.
        folder: Directory of the copy.
    """
    for place in (Path(), Path("src_tokens")):
        for name in (*VOCABULARY, *sorted({*MODEL_FILES.values()})):
            if (model_dir / place / name).is_file():
                copy_file(model_dir / place / name, folder / place / name)
    for section, key in named_files(config):
        source = Path(section[key])
        is_local = source.resolve().is_relative_to(model_dir.resolve())
        beside = "src_tokens" if key == "src_bpemodel" else ""  # both may have the name bpe.model
        place = source.resolve().relative_to(model_dir.resolve()) if is_local else Path(beside, source.name)
        copy_file(source, folder / place)
        section[key] = str(place)
    make_vocabularies(config, folder)


def make_vocabularies(config: Mapping, folder: Path) -> None:
    """Make vocabularies of text and source text from a configuration of ESPnet, whose models have no vocabularies.

    Args:
        config: Configuration of the run; the paths of `bpemodel` and `src_bpemodel` are absolute or in `folder`.
        folder: Directory of the model; existing vocabularies in it stay as they are.
    """
    for place, prefix in ((folder, ""), (folder / "src_tokens", "src_")):
        tokens, tokenizer = config.get(f"{prefix}token_list"), config.get(f"{prefix}bpemodel")
        if not (place / "tokens.yaml").is_file() and isinstance(tokens, list):
            with suppress(UserError):  # words or phonemes: then only decoding is possible
                model = read_bytes(Path(folder, tokenizer)) if tokenizer else None
                Vocabulary(str(config.get(f"{prefix}token_type")), list(map(str, tokens)), model).save(place)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, and create the folder of the target."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _copy_hidden(source: Path, target: Path) -> None:
    for path in source.glob(".*"):
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, target / path.name, symlinks=True)
        else:
            shutil.copy2(path, target / path.name, follow_symlinks=False)
