"""The directory of a model made from a run: weights, configuration, vocabularies and statistics of the features."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from torch import nn

from espnet_diverse.data.targets import mark_prepared
from espnet_diverse.errors import UserError
from espnet_diverse.training import checkpoint
from espnet_diverse.training.config import save
from espnet_diverse.vocabulary import Vocabulary

_VOCABULARY = ("tokens.txt", "tokens.yaml", "bpe.model", "tokenizer.json")


def write_model(model: nn.Module, config: dict, model_dir: Path, weights: Path, command: str) -> None:
    """Write the directory of a model with the mark of the command that makes it.

    Args:
        model: The model.
        config: Its configuration, which is changed as by `copy_files`.
        model_dir: Directory of the run that it is made from.
        weights: File to write the weights to, in the directory of the model, see `copy_files`.
        command: The command.
    """
    copy_files(config, model_dir, weights.parent)
    mark_prepared(weights.parent, command, later=[weights.name, "config.yaml"])  # first: after a kill it can run again
    checkpoint.save(model.state_dict(), weights)
    save(config, weights.parent / "config.yaml")


def copy_files(config: dict, model_dir: Path, output_dir: Path) -> None:
    """Copy the files that loading the model needs, and change `config` to the copies.

    What `output_dir` has of another model is removed first: weights in the other format, say, would be taken for those
    that are written now. Hidden files stay.

    Args:
        config: Configuration of the run, as `read_config` returns it.
        model_dir: Directory of the run.
        output_dir: Directory of the copy, which `data.targets.check_prepared` has let through; it need not exist.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    for path in output_dir.glob("[!.]*"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for folder in (model_dir, model_dir / "src_tokens"):
        for name in _VOCABULARY:
            if (folder / name).is_file():
                _copy(folder / name, output_dir / folder.relative_to(model_dir) / name)
    normalise = config.get("normalize_conf") or {}
    for section, key in ((config, "bpemodel"), (config, "src_bpemodel"), (normalise, "stats_file")):
        if section.get(key):
            source = Path(section[key])
            inside = source.resolve().is_relative_to(model_dir.resolve())
            folder = "src_tokens" if key == "src_bpemodel" else ""  # both may have the name bpe.model
            place = source.resolve().relative_to(model_dir.resolve()) if inside else Path(folder, source.name)
            section[key] = str(_copy(source, output_dir.absolute() / place))
    make_vocabularies(config, output_dir)


def make_vocabularies(config: Mapping, folder: Path) -> None:
    """Make those of text and source text from a configuration of ESPnet, whose models have no such directories.

    Args:
        config: Configuration of the run; the paths of `bpemodel` and `src_bpemodel` are absolute or in `folder`.
        folder: Directory of the model, in which vocabularies that are there stay as they are.
    """
    for place, prefix in ((folder, ""), (folder / "src_tokens", "src_")):
        tokens, tokenizer = config.get(f"{prefix}token_list"), config.get(f"{prefix}bpemodel")
        if not (place / "tokens.yaml").is_file() and isinstance(tokens, list):
            with suppress(UserError):  # words or phonemes: then only decoding is possible
                model = Path(folder, tokenizer).read_bytes() if tokenizer else None
                Vocabulary(str(config.get(f"{prefix}token_type")), list(map(str, tokens)), model).save(place)


def _copy(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target
