"""Checks that a resumed run has the settings, data, vocabularies, statistics, kernels and shapes of before.

A run keeps digests of its data in data.json. That of a table of audio covers the ids and the sizes of the files, and a
second one their headers and parts of their content, not their paths, so that a corpus may be moved; that of any other
table covers its content. Settings are compared with train.yaml, vocabularies and statistics with the copies that the
run has, and shapes of parameters with its checkpoint. All of this only reads.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from torch import nn
from torch.optim import Optimizer

from espnet_diverse.audio.ark import ark_entry, file_size, without_frames
from espnet_diverse.data.atomic_files import write_text
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.foreign_yaml import read_yaml
from espnet_diverse.option_checks import with_present_names
from espnet_diverse.stage_cache import digest
from espnet_diverse.training import checkpoint
from espnet_diverse.training.config import Config, differences
from espnet_diverse.training.run_data import Tokens
from espnet_diverse.training.run_kernels import others_asked
from espnet_diverse.training.statistics import differ
from espnet_diverse.vocabulary import Vocabulary

ALLOWED = ("data", "statistics", "kernels")
"""What may change if that is allowed, besides settings; with another vocabulary the weights would not fit."""

WITHOUT_EFFECT = ("log_interval", "num_workers", "resume", "save_interval_steps", "use_tensorboard", "use_wandb")
"""Settings that may change without being allowed: they have no effect on the model."""

_FIXED = ("optim", "optim_conf", "scheduler", "scheduler_conf")  # the saved state of the optimizer has them
_RATE = "optim_conf.lr"
_FILE = "data.json"
_OTHER = {
    "data": "other data",
    "vocabulary": "another vocabulary",
    "statistics": "other statistics",
    "kernels": "other kernels",
}
_SAMPLE = 4096  # bytes of a header, and of the middle of a file


def is_resumed(output_dir: Path) -> bool:
    """Return whether there is a run in `output_dir` that has saved its state.

    Raises:
        ModelError: There are weights, but no state with which training could go on.
    """
    if (output_dir / checkpoint.CHECKPOINT).exists() or (output_dir / checkpoint.PREVIOUS).exists():
        return True
    weights = sorted(path.name for path in weight_files(output_dir))
    if weights:
        raise ModelError(
            f"{output_dir}: has {' '.join(weights[:3])} but no {checkpoint.CHECKPOINT} with which training could go "
            f"on; {_advice()}"
        )
    return False


def weight_files(output_dir: Path) -> list[Path]:
    """Files and links of weights and checkpoints in the directory of a run."""
    return [path for pattern in ("*.pth", "*.safetensors") for path in output_dir.glob(pattern)]


def check_settings(config: Config, output_dir: Path, allowed: Collection[str] = ()) -> list[str]:
    """Compare the configuration with train.yaml of the run that is continued.

    Args:
        config: The user's configuration.
        output_dir: Directory of the run; if it has no train.yaml, nothing is compared.
        allowed: What may differ: keys, or sections whose keys may all differ.

    Returns:
        The differences that are allowed, as text.

    Raises:
        ConfigError: Another setting differs; the message has the key, the former value and the present one. Or a name
            in `allowed` is none of `ALLOWED` and no key.
        ModelError: train.yaml is damaged.
    """
    path = output_dir / "train.yaml"
    before: Mapping = config
    if path.exists():
        before = with_present_names(read_yaml(path, str(path), "copy the file again"), str(path))
    for name in allowed:
        if name not in ALLOWED and name.partition(".")[0] not in {*config, *before}:
            known = f"{' '.join(ALLOWED)}, and keys of the configuration such as max_epoch and {_RATE}"
            raise ConfigError(f"--allow_changed {name}: unknown; known: {known}")
    changes = differences(before, config)
    changes = {key: change for key, change in changes.items() if key.partition(".")[0] not in WITHOUT_EFFECT}
    fixed = [key for key in changes if key.partition(".")[0] in _FIXED and key != _RATE]
    refused = [key for key in changes if key in fixed or not _covered(key, allowed)]
    if refused:
        listed = "; ".join(f"{key}: {changes[key]}" for key in refused)
        here = f"{output_dir}: was trained with other settings: {listed}"
        raise ConfigError(f"{here}; {_advice([] if fixed else refused)}")
    return [f"{key}: {change}" for key, change in changes.items()]


def _advice(allowable: Sequence[str] = ()) -> str:
    """Advice, with the options of `train` and those by which a recipe takes them."""
    go_on = f", or --allow_changed {' '.join(allowable)} to go on with these" if allowable else ""
    named = "--restart or --allow_changed" if allowable else "--restart"
    return (
        f"give another --output_dir for a separate run, --restart to train this one anew{go_on} "
        f"(run.sh: another --tag, or {named} in --train_options)"
    )


def _covered(key: str, allowed: Collection[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in allowed)


def digests(config: Config) -> dict[str, str]:
    """SHA-256 digests of the tables that a run reads, by phase and name of the table, such as train/text.

    Args:
        config: The configuration with the paths of the data filled in.
    """
    found = {}
    for phase in ("train", "valid"):
        for file, _, kind in config[f"{phase}_data_path_and_name_and_type"]:
            path, name = Path(file), f"{phase}/{Path(file).name}"
            if kind == "text":
                found[name] = str(digest(path))
            else:
                entries, hasher = pack_table(path), sha256()
                for utterance, file in entries.items():
                    hasher.update(f"{utterance} {file_size(file)}\n".encode())
                found[name] = hasher.hexdigest()
                found[f"{name}, audio"] = _digest_of_audio(entries)
    return found


def _digest_of_audio(entries: Mapping[str, str]) -> str:
    """Digest of the beginning of each file or entry of an ark, of a range of its frames, and of each file's middle."""
    hasher = sha256()
    for utterance, path in entries.items():
        whole = without_frames(path)
        entry, frames = ark_entry(whole), path.removeprefix(whole)
        with (entry.path if entry else Path(path)).open("rb") as file:
            places = [entry.offset] if entry else [0, file.seek(0, 2) // 2]
            for place in places:
                file.seek(place)
                hasher.update(f"{utterance}{frames}".encode() + file.read(_SAMPLE))
    return hasher.hexdigest()


def check_unchanged(
    output_dir: Path,
    tables: dict[str, str],
    tokens: Tokens,
    statistics: Path | None,
    allowed: Collection[str] = (),
) -> None:
    """Check that a run is continued with its own data, vocabularies, statistics and kernels; nothing is written.

    Args:
        output_dir: Directory of the run. What it has no copy or digest of is not compared.
        tables: `digests` of the data.
        tokens: The vocabularies.
        statistics: File with the statistics of the features, or None for text.
        allowed: What may differ, of `ALLOWED`.

    Raises:
        DataError: Something differs, or the digests of the run are damaged; the message names it.
    """
    known = _saved_digests(output_dir / _FILE)
    copy = output_dir / statistics.name if statistics else None
    differing = {
        "data": [name for name, digest in tables.items() if known.get(name, digest) != digest],
        "vocabulary": _other_vocabularies(output_dir, tokens),
        "statistics": [str(statistics)] if copy and copy.is_file() and differ(statistics, copy) else [],
        "kernels": others_asked(output_dir),
    }
    for what, which in differing.items():
        if which and what not in allowed:
            here = f"{output_dir}: was trained with {_OTHER[what]} than {' '.join(which)}"
            raise DataError(f"{here}; {_advice([what] if what in ALLOWED else [])}")


def check_state(output_dir: Path, model: nn.Module, optimizers: Sequence[Optimizer], schedulers: Sequence) -> Path:
    """Check that the newest sound checkpoint of a run fits its training, see `checkpoint.check_fit`.

    Returns:
        Its file.

    Raises:
        ModelError: It does not fit, or no checkpoint is sound.
    """
    state, path = checkpoint.load_run(output_dir)
    try:
        checkpoint.check_fit(state, path, model, optimizers, schedulers)
    except ModelError as error:
        raise ModelError(f"{error}; {_advice()}") from error
    return path


def _saved_digests(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        saved = None
    if not isinstance(saved, dict):
        raise DataError(
            f"{path}: is damaged, so the data of the run cannot be compared; delete it to go on without that, "
            "or give another --output_dir"
        )
    return saved


def save_digests(tables: dict[str, str], output_dir: Path) -> None:
    """Keep the digests of the data in the directory of a run."""
    write_text(output_dir / _FILE, json.dumps(tables, indent=1) + "\n")


def _other_vocabularies(output_dir: Path, tokens: Tokens) -> list[str]:
    """Folders of the vocabularies that the run has a different copy of."""
    copies = tokens.moved(output_dir).folders
    there = {name: Vocabulary.load(copy) for name, copy in copies.items() if (copy / "tokens.yaml").is_file()}
    new = tokens.vocabularies
    differ = [name for name, old in there.items() if (old.tokens, old.model) != (new[name].tokens, new[name].model)]
    return [str(tokens.folders[name]) for name in differ]
