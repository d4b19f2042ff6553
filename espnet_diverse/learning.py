"""Python interface to training: runs the stages of the commands in this process.

    from espnet_diverse import Recognizer, fine_tune, train

    config = "model/small,attention/sdma,update/adam_inverse_sqrt_800"
    run = train(config, "data", "exp/sdma", settings={"max_epoch": 20})
    print(Recognizer(run).transcribe("talk.wav").text)

The commands write the same files and report the same errors. To resume, repeat the call, or run the same command in a
shell: finished stages are skipped, and training continues. A call restores signal handlers, random generators, logging,
environment and settings of PyTorch; only the allocator keeps freed memory (`cpu.allocator`). In the main thread,
SIGINT, SIGTERM and SIGHUP save a checkpoint within the epoch and raise an `InterruptedRunError`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from espnet_diverse.bin.plan_steps import PROGRAM, make_step
from espnet_diverse.bin.train.fine_tune import sets_of, stages
from espnet_diverse.bin.train.plan import run_steps
from espnet_diverse.errors import TrainingError
from espnet_diverse.registration import fast_start
from espnet_diverse.runs.config import in_one_line

fast_start()  # as the commands, before ESPnet is imported

Source = str | PathLike[str]


def train(
    config: Source | Sequence[Source],
    data: Source,
    output_dir: Source,
    tokens_dir: Source | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    task: str = "asr",
    src_tokens_dir: Source | None = None,
    init_param: Sequence[str] = (),
    number: int = 5,
    ngpu: int = 0,
    nproc: int = 1,
    allow_changed: Sequence[str] = (),
    restart: bool = False,
) -> Path:
    """Collect statistics, train and average the best epochs, as `espnet-diverse stats`, `train` and `average`.

    Args:
        config: Fragments by name, such as "model/small,attention/sdma", or YAML files; the last one has priority.
        data: Folder of the data directories train and dev (or valid).
        output_dir: Directory of the run.
        tokens_dir: Vocabulary; by default the characters of the training text.
        settings: Changes of the configuration, such as {"optim_conf": {"lr": 1e-3}, "max_epoch": 20}; dotted keys such
            as "optim_conf.lr" are allowed.
        task: "asr", "st", "mt", "lm" or "cls".
        src_tokens_dir: Vocabulary of the source text; by default the vocabulary of the text.
        init_param: Pretrained parameters to start from, see `espnet-diverse train --help`.
        number: Number of best epochs to average.
        ngpu: Number of GPUs of this machine, with one process each.
        nproc: Number of processes of this machine on the CPU.
        allow_changed: Keys that may differ from the run that is resumed, such as "max_epoch".
        restart: Whether to delete the checkpoints and weights in `output_dir` and train from scratch.

    Returns:
        The directory of the run, which `Recognizer`, `Translator` and the commands take as the model.

    Raises:
        UserError: Any error that the commands print, such as a `ConfigError`, `DataError` or `TrainingError`.
    """
    output_dir, steps = Path(output_dir), []
    if tokens_dir is None:
        tokens_dir = output_dir / "tokens"
        words = ["--text", str(Path(data, "train", "text")), "--output_dir", str(tokens_dir), "--debug"]
        steps.append(make_step("tokens", [PROGRAM, "tokens", *words]))
    shared = [*_configured(config, settings), *sets_of(Path(data)), "--task", task, "--tokens_dir", str(tokens_dir)]
    shared += ["--src_tokens_dir", str(src_tokens_dir)] if src_tokens_dir else []
    training = [*_several("init_param", init_param), *_resources(ngpu, nproc, allow_changed, restart)]
    collecting = _several("init_param", init_param) if (settings or {}).get("keep_features") else []
    steps += stages(output_dir, shared, training, number, debug=True, collecting=collecting)
    return _finished(run_steps(steps, output_dir / ".stamps"), output_dir)


def fine_tune(
    model: Source,
    data: Source,
    output_dir: Source,
    *,
    config: Source | Sequence[Source] = (),
    settings: Mapping[str, Any] | None = None,
    model_file: str | None = None,
    tokens_dir: Source | None = None,
    number: int = 3,
    ngpu: int = 0,
    nproc: int = 1,
    allow_changed: Sequence[str] = (),
    restart: bool = False,
) -> Path:
    """Train a model further on other data, as `espnet-diverse fine-tune`.

    Args:
        model: Directory of a run, a packed model, a folder of ESPnet's exp, or hf:owner/name.
        data: As for `train`.
        output_dir: As for `train`.
        config: Fragments or files, such as "adapter/lora", that change the model's configuration and update/fine_tune.
        settings: As for `train`.
        model_file: Weights, as a path or a name in the directory of the model.
        tokens_dir: Another vocabulary; tokens that the model knows keep their parameters.
        number: As for `train`.
        ngpu: As for `train`.
        nproc: As for `train`.
        allow_changed: As for `train`.
        restart: As for `train`.

    Returns:
        The directory of the run, as for `train`.

    Raises:
        UserError: As for `train`; also a `ModelError` if the model cannot be read.
    """
    words = [str(model), str(data), "--output_dir", str(output_dir), "--number", str(number)]
    words += [*_configured(config, settings), *_resources(ngpu, nproc, allow_changed, restart), "--debug"]
    words += [f"--model_file={model_file}"] if model_file else []
    words += [f"--tokens_dir={tokens_dir}"] if tokens_dir else []
    return _finished(make_step("fine-tune", [PROGRAM, "fine-tune", *words]).run(), Path(output_dir))


def _finished(code: int, output_dir: Path) -> Path:
    """Return the directory of the run, or raise an error if a stage failed."""
    if code:  # a library ended the stage; errors of this package are raised where they occur
        raise TrainingError(f"{output_dir}: a stage ended with exit code {code}; its log is in this folder")
    return output_dir


def _configured(config: Source | Sequence[Source], settings: Mapping[str, Any] | None) -> list[str]:
    """The options --config and --set."""
    names = [config] if isinstance(config, str | PathLike) else config
    fragments = [f"--config={name}" for name in map(str, names)]
    plain = json.loads(json.dumps(dict(settings or {}), default=str))  # paths and other objects as text
    return fragments + [f"--set={key}={in_one_line(value)}" for key, value in plain.items()]


def _resources(ngpu: int, nproc: int, allow_changed: Iterable[str], restart: bool) -> list[str]:
    """The options of processes and of resuming."""
    words = [f"--ngpu={ngpu}", f"--nproc={nproc}", *_several("allow_changed", allow_changed)]
    return words + ["--restart"] * restart


def _several(option: str, values: Iterable[str]) -> list[str]:
    values = [values] if isinstance(values, str) else list(values)
    return [f"--{option}", *values] if values else []
