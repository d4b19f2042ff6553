"""Fine-tuning: the configuration that it begins with, and its stages."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import save
from espnet_diverse.runs.model_files import find_weights
from espnet_diverse.stage_runs import Stage
from espnet_diverse.training.options import FineTuningOptions
from espnet_diverse.training.pipeline import model_stages, sets_of

_UPDATE = ("optim", "scheduler")
_OF_RUN = ("max_epoch", "patience", "early_stopping_criterion", "keep_nbest_models", "num_iters_per_epoch", "repulsion")
_FROZEN = ("freeze_param", "unfreeze_param")


def fine_tuning_stages(
    model_dir: Path,
    data_dir: Path,
    output_dir: Path,
    fragments: Sequence[str],
    changes: Sequence[str],
    options: FineTuningOptions,
) -> list[Stage]:
    """Write start.yaml, the configuration to begin with, and return the stages that fine-tune a model.

    Args:
        model_dir: Directory of the model.
        data_dir: Folder of the data directories train and dev, or valid.
        output_dir: Directory of the run.
        fragments: Fragments that change the configuration of the model and update/fine_tune.
        changes: Changes of the configuration, as key.sub=value.
        options: Further options.

    Raises:
        ConfigError: `output_dir` is the directory of the model, or its vocabulary is of a type that is not trained.
        DataError: The data directories are missing.
        ModelError: The model cannot be read.
    """
    sets = sets_of(data_dir)
    if output_dir.resolve() == model_dir.resolve():
        raise ConfigError(f"{output_dir}: is the directory of the model itself; give another one")
    from espnet_diverse.runs.tasks import load_model, read_config
    from espnet_diverse.runs.training_config import training_config

    config = read_config(model_dir / "config.yaml")
    task, weights = config.get("task", "asr"), find_weights(model_dir, options.model_file, config)
    start = output_dir / "start.yaml"
    begun = {key: value for key, value in training_config(config).items() if not _is_left_out(key, config)}
    load_model(model_dir, weights, task=task)  # refuses sizes that the weights do not have, before memory is spent
    save(begun | ({"init_known_tokens": True} if options.tokens_dir else {}), start)
    shared = {
        "config": ",".join([str(start.absolute()), "update/fine_tune", *fragments]),
        "set": list(changes),
        "task": task,
        **sets,
        **_tokens(config, model_dir, output_dir, options),
    }
    training = {"init_param": [str(weights)], **options.of_training()}
    return model_stages(output_dir, shared, training, options.number)


def _is_left_out(key: str, config: Mapping[str, Any]) -> bool:
    """Return whether a key belongs to the model's own training and not to its fine-tuning."""
    return key.startswith(_UPDATE) or key in _OF_RUN or key in _FROZEN and not config.get("use_adapter")


def _tokens(config: dict, model_dir: Path, output_dir: Path, options: FineTuningOptions) -> dict[str, Path]:
    """The vocabularies, as fields of `Configured`; for a model of ESPnet they are made from its configuration."""
    from espnet_diverse.runs.packed.run_files import make_vocabularies

    folder = model_dir
    if not (folder / "tokens.yaml").is_file():
        folder = output_dir / "tokens"
        make_vocabularies(config, folder)
    if not (folder / "tokens.yaml").is_file() and options.tokens_dir is None:
        kind = f"a vocabulary of type {config.get('token_type')}, with which this package does not train"
        raise ConfigError(f"{model_dir}: has {kind}; make another with espnet-diverse tokens, and give --tokens_dir")
    source = {"src_tokens_dir": folder / "src_tokens"} if (folder / "src_tokens" / "tokens.yaml").is_file() else {}
    return {"tokens_dir": Path(options.tokens_dir or folder), **source}
