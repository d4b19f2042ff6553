"""Checks that a resumed run has the same settings, data, vocabularies, statistics, kernels and shapes as before.

Data are compared with the record of them in the run (`data_record.py`), settings with train.yaml, vocabularies and
statistics with the copies in the run, and shapes of parameters with its checkpoint. These checks write nothing.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from torch import nn
from torch.optim import Optimizer

from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.option_checks import with_present_names
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import Config, differences, load
from espnet_diverse.runs.stored.frozen_part import PATTERN
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.training.checkpoints.data_record import saved_digests
from espnet_diverse.training.checkpoints.run_identity import KEY, check_identity
from espnet_diverse.training.checkpoints.run_kernels import others_asked
from espnet_diverse.training.checkpoints.run_state import check_version
from espnet_diverse.training.data.run_data import Tokens
from espnet_diverse.training.data.statistics import differ
from espnet_diverse.untrusted.foreign_yaml import read_yaml

ALLOWED = ("data", "statistics", "kernels")
"""Names besides settings that may change if that is allowed; with another vocabulary the weights would not fit."""

WITHOUT_EFFECT = (
    *("log_interval", "log_level", "num_workers", "resume", "save_interval_steps"),
    *("use_matplotlib", "num_att_plot", "use_tensorboard", "use_wandb"),
    *(f"wandb_{option}" for option in ("project", "entity", "name", "id", "allow_val_change")),
)
"""Settings that may change without being allowed: they have no effect on the model."""

_FIXED = ("optim", "optim_conf", "scheduler", "scheduler_conf")  # the saved state of the optimizer has them
_RATE = "optim_conf.lr"
_OTHER = {
    "data": "other data",
    "vocabulary": "another vocabulary",
    "statistics": "other statistics",
    "kernels": "other kernels",
}


def is_resumed(output_dir: Path) -> bool:
    """Return whether there is a run in `output_dir` that has saved its state.

    Raises:
        ModelError: There are weights, but no state from which training could continue.
    """
    if checkpoint.has_run(output_dir):
        return True
    # A run that was killed before its first save may have the frozen part of its model.
    weights = sorted(path.name for path in weight_files(output_dir) if not path.match(PATTERN))
    if weights:
        raise ModelError(
            f"{output_dir}: has {' '.join(weights[:3])} but no {checkpoint.CHECKPOINT} from which training could "
            f"continue; {_advice()}"
        )
    return False


def weight_files(output_dir: Path) -> list[Path]:
    """Files and links of weights and checkpoints in the directory of a run."""
    return [path for pattern in ("[!.]*.pth", "[!.]*.safetensors") for path in output_dir.glob(pattern)]


def check_allowed(allowed: Collection[str], keys: Collection[str]) -> None:
    """Refuse names to allow that are none of `ALLOWED` and below none of the keys of a configuration.

    Raises:
        ConfigError: There is such a name.
    """
    for name in allowed:
        if name not in ALLOWED and name.partition(".")[0] not in keys:
            known = f"{' '.join(ALLOWED)}, and keys of the configuration such as max_epoch and {_RATE}"
            raise ConfigError(f"--allow_changed {name}: unknown; known: {known}")


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
    before: dict = config
    if path.exists():
        before = with_present_names(read_yaml(path, str(path), "copy the file again"), str(path))
    check_allowed(allowed, {*config, *before})
    changes = differences(before, config)
    changes = {key: change for key, change in changes.items() if key.partition(".")[0] not in WITHOUT_EFFECT}
    fixed = [key for key in changes if key.partition(".")[0] in _FIXED and key != _RATE]
    refused = [key for key in changes if key in fixed or not _covered(key, allowed)]
    if refused:
        listed = "; ".join(f"{key}: {changes[key]}" for key in refused)
        message = f"{output_dir}: was trained with other settings: {listed}"
        raise ConfigError(f"{message}; {_advice([] if fixed else refused)}")
    return [f"{key}: {change}" for key, change in changes.items()]


def check_task(task: str, output_dir: Path) -> None:
    """Check that the run that is continued is of a task; models of two tasks may have the same parameters.

    Raises:
        ConfigError: It is of another task.
        ModelError: Its config.yaml is damaged.
    """
    path = output_dir / "config.yaml"
    if path.is_file() and (before := load(path)["task"]) != task:
        raise ConfigError(f"{output_dir}: was trained with --task {before}, not {task}; {_advice()}")


def _advice(allowable: Sequence[str] = ()) -> str:
    """Return advice, with the options of `train` and the way to pass them to a recipe."""
    go_on = f", or --allow_changed {' '.join(allowable)} to continue with these" if allowable else ""
    named = "--restart or --allow_changed" if allowable else "--restart"
    return (
        f"give another --output_dir for a separate run, --restart to train this one from scratch{go_on} "
        f"(run.sh: another --tag, or {named} in --train_options)"
    )


def _covered(key: str, allowed: Collection[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in allowed)


def check_unchanged(
    output_dir: Path,
    tables: dict[str, str],
    tokens: Tokens,
    statistics: Path | None,
    allowed: Collection[str] = (),
) -> None:
    """Check that a run is continued with its own data, vocabularies, statistics and kernels; nothing is written.

    Args:
        output_dir: Directory of the run. Anything without a copy or digest in it is not compared.
        tables: Digests of the data, see `DataRecord.digests`.
        tokens: The vocabularies.
        statistics: File with the statistics of the features, or None for text.
        allowed: What may differ, of `ALLOWED`.

    Raises:
        DataError: Something differs, or the digests of the run are damaged; the message names it.
    """
    known = saved_digests(output_dir)
    copy = output_dir / statistics.name if statistics else None
    differing = {
        "data": [name for name, digest in tables.items() if known.get(name, digest) != digest],
        "vocabulary": _other_vocabularies(output_dir, tokens),
        "statistics": [str(statistics)] if copy and copy.is_file() and differ(statistics, copy) else [],
        "kernels": others_asked(output_dir),
    }
    for reason, which in differing.items():
        if which and reason not in allowed:
            message = f"{output_dir}: was trained with {_OTHER[reason]} than {' '.join(which)}"
            raise DataError(f"{message}; {_advice([reason] if reason in ALLOWED else [])}")


def check_state(
    output_dir: Path, model: nn.Module, optimizers: Sequence[Optimizer], schedulers: Sequence
) -> tuple[Path, str | None]:
    """Check that the newest sound checkpoint of a run is its own and fits its training, see `checkpoint.check_fit`.

    Returns:
        File of the checkpoint, and the identity of the run if it has one.

    Raises:
        ModelError: It is of another run, does not fit, is of an earlier version, or no checkpoint is sound.
    """
    state, path = checkpoint.load_run(output_dir)
    try:
        check_version(state, path)
        check_identity(state.get(KEY), path)
        checkpoint.check_fit(state, path, model, optimizers, schedulers)
    except ModelError as error:
        raise ModelError(f"{error}; {_advice()}") from error
    return path, state.get(KEY)


def _other_vocabularies(output_dir: Path, tokens: Tokens) -> list[str]:
    """Return the folders of vocabularies of which the run has a different copy."""
    copies = tokens.moved(output_dir).folders
    saved = {name: Vocabulary.load(copy) for name, copy in copies.items() if (copy / "tokens.yaml").is_file()}
    new = tokens.vocabularies
    differ = [name for name, old in saved.items() if (old.tokens, old.model) != (new[name].tokens, new[name].model)]
    return [str(tokens.folders[name]) for name in differ]
