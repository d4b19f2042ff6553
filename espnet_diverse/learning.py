"""Python interface to training: the stages of the commands, as functions.

    from espnet_diverse import Recognizer, TrainingOptions, fine_tune, train

    config = "model/small,attention/sdma,update/adam_inverse_sqrt_800"
    run = train(config, "data", "exp/sdma", settings={"max_epoch": 20}, options=TrainingOptions(number=3))
    print(Recognizer(run).transcribe("talk.wav").text)

The commands write the same files and report the same errors. To resume, repeat the call, or run the same command in a
shell: finished stages are skipped, and training continues. A call restores signal handlers, random generators, logging
and settings of PyTorch, and changes neither the environment nor the working directory, which belong to all threads;
only the allocator keeps freed memory (`cpu.allocator`). In the main thread, SIGINT, SIGTERM and SIGHUP save a
checkpoint within the epoch and raise an `InterruptedRunError`.
"""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from espnet_diverse.errors import ConfigError, TrainingError
from espnet_diverse.registration import fast_start
from espnet_diverse.runs.config import in_one_line
from espnet_diverse.stage_runs import Stage, isolated, run_stages
from espnet_diverse.training.fine_tuning import fine_tuning_stages
from espnet_diverse.training.options import FineTuningOptions, TrainingOptions, several
from espnet_diverse.training.pipeline import Characters, model_stages, sets_of, texts_of

__all__ = ["FineTuningOptions", "TrainingOptions", "fine_tune", "train"]

fast_start()  # as the commands, before ESPnet is imported

Source = str | PathLike[str]


def train(
    config: Source | Sequence[Source],
    data: Source,
    output_dir: Source,
    tokens_dir: Source | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    options: TrainingOptions | None = None,
) -> Path:
    """Collect statistics, train and average the best epochs, as `espnet-diverse stats`, `train` and `average`.

    Args:
        config: Fragments by name, such as "model/small,attention/sdma", or YAML files; the last one has priority.
        data: Folder of the data directories train and dev (or valid).
        output_dir: Directory of the run.
        tokens_dir: Vocabulary; by default the characters of the training text, and of a source text without a
            vocabulary of its own.
        settings: Changes of the configuration, such as {"optim_conf": {"lr": 1e-3}, "max_epoch": 20}; dotted keys such
            as "optim_conf.lr" are allowed.
        options: Task, initial parameters, epochs to average, processes and how to resume.

    Returns:
        The directory of the run, which `Recognizer`, `Translator` and the commands take as the model.

    Raises:
        UserError: Any error that the commands print, such as a `ConfigError`, `DataError` or `TrainingError`.
    """
    options = options or TrainingOptions()
    folder, sets, stages = Path(output_dir), sets_of(Path(data)), list[Stage]()
    if not (fragments := _fragments(config)):
        raise ConfigError("config is empty; give fragments, such as model/small,attention/sdma")
    if tokens_dir is None:
        tokens_dir = folder / "tokens"
        texts = texts_of(Path(data, "train"), options.task, options.src_tokens_dir)
        stages.append(Characters(text=texts, output_dir=tokens_dir))
    source = {"src_tokens_dir": Path(options.src_tokens_dir)} if options.src_tokens_dir else {}
    shared = {"config": ",".join(fragments), "set": _changes(settings), "task": options.task, **sets, **source}
    training = {"init_param": several(options.init_param), **options.of_training()}
    stages += model_stages(folder, {**shared, "tokens_dir": Path(tokens_dir)}, training, options.number)
    return _run(stages, folder)


def fine_tune(
    model: Source,
    data: Source,
    output_dir: Source,
    *,
    config: Source | Sequence[Source] = (),
    settings: Mapping[str, Any] | None = None,
    options: FineTuningOptions | None = None,
) -> Path:
    """Train a model further on other data, as `espnet-diverse fine-tune`.

    Args:
        model: Directory of a run, a packed model, a folder of ESPnet's exp, or hf:owner/name.
        data: As for `train`.
        output_dir: As for `train`.
        config: Fragments or files, such as "adapter/lora", that change the model's configuration and update/fine_tune.
        settings: As for `train`.
        options: Weights, vocabulary, epochs to average, processes and how to resume.

    Returns:
        The directory of the run, as for `train`.

    Raises:
        UserError: As for `train`; also a `ModelError` if the model cannot be read.
    """
    from espnet_diverse.runs.packed.archive import unpacked  # imports PyTorch

    folder, options = Path(output_dir), options or FineTuningOptions()
    with isolated("fine-tune"):
        changes = _fragments(config), _changes(settings)
        stages = fine_tuning_stages(unpacked(Path(model)), Path(data), folder, *changes, options)
    return _run(stages, folder)


def _run(stages: Sequence[Stage], output_dir: Path) -> Path:
    """Run the stages, and return the directory of the run, or raise an error if a stage failed."""
    if code := run_stages(stages, output_dir / ".stamps"):
        # A library ended the stage; errors of this package are raised where they occur.
        raise TrainingError(f"{output_dir}: a stage ended with exit code {code}; its log is in this folder")
    return output_dir


def _fragments(config: Source | Sequence[Source]) -> list[str]:
    """Names of the fragments."""
    return list(map(str, [config] if isinstance(config, str | PathLike) else config))


def _changes(settings: Mapping[str, Any] | None) -> list[str]:
    """Changes of the configuration, as key=value."""
    plain = json.loads(json.dumps(dict(settings or {}), default=str))  # paths and other objects as text
    return [f"{key}={in_one_line(value)}" for key, value in plain.items()]
