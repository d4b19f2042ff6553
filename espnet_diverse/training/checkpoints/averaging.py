"""Averaging the best epochs of a training run.

ESPnet's own `average_nbest_models` is not used. With several criteria it accumulates into the epoch that it loaded for
the first one, so the next criterion averages an average. It also sums integers, returns a single epoch if fewer than
requested were trained, fails on a missing epoch, and runs code that an epoch file may contain.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from espnet2.train.reporter import Reporter
from torch import Tensor

from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import load
from espnet_diverse.runs.criteria import are_criteria, preferred_metrics

log = logging.getLogger(__name__)

Stats = dict[int, dict[str, dict[str, float]]]
"""ESPnet's record of a run: epoch, then "train" or "valid", then the name of a statistic."""


def average(model_dir: str | Path, metric: str | None = None, number: int = 5) -> Path:
    """Average the best epochs of a run and write `<metric>.ave.pth`.

    Args:
        model_dir: Directory of the run.
        metric: One of the run's `best_model_criterion`, as phase and name; by default the first of `preferred_metrics`
            that the run has measured.
        number: Number of epochs to average; if fewer have been kept, these are averaged, with a warning.

    Returns:
        Path of the averaged model.

    Raises:
        ConfigError: The metric is none of the run's criteria, or not measured, or the number is less than 1.
        ModelError: The run has not finished an epoch, its config.yaml is missing or damaged or has no criteria, or its
            checkpoint has no statistics.
    """
    model_dir = Path(model_dir)
    if number < 1:
        raise ConfigError(f"{number} epochs cannot be averaged; give a number of at least 1")
    config = load(model_dir / "config.yaml")
    modes = {f"{phase}.{name}": mode for phase, name, mode in _criteria(config, model_dir / "config.yaml")}
    if metric is not None and metric not in modes:
        raise ConfigError(f"unknown metric {metric!r}; best_model_criterion of this run has: {' '.join(modes)}")
    state, file = checkpoint.load_run(model_dir)
    if "reporter" not in state:
        raise ModelError(f"{file}: has no statistics by which the best epochs are chosen; give the directory of a run")
    best = {name: rank_epochs(state["reporter"]["stats"], name, mode) for name, mode in modes.items()}
    measured = [name for name in preferred_metrics(config) if best.get(name)]
    if metric is None and measured:
        metric = measured[0]
    if metric not in measured:
        asked = metric or " or ".join(modes) or "metric, as best_model_criterion is empty"
        raise ConfigError(f"{file}: no epoch has a finite {asked}; --metric may be: {' '.join(measured) or 'none'}")
    path, ranked = model_dir / f"{metric}.ave.pth", best[metric]
    if len(ranked) < number:
        message = "%s: %d of the %d epochs that are asked for: the run has no more with a finite %s; averaging these"
        log.warning(message, path, len(ranked), number, metric)
    _write_average(model_dir, ranked[:number], path)
    return path


def _criteria(config: Mapping, file: Path) -> list[list[str]]:
    """Return the criteria of a run: phase, name and mode of each."""
    criteria = config.get("best_model_criterion")
    if not are_criteria(criteria):
        message = f"best_model_criterion is {criteria!r:.100}, not a list of [PHASE, NAME, MODE]"
        raise ModelError(f"{file}: {message}; give the directory of a run that this package or ESPnet has trained")
    return criteria


def average_best(
    output_dir: Path, reporter: Reporter, criteria: Iterable[Sequence[str]], number: int, suffix: str = ""
) -> None:
    """Write the average of the best epochs by each criterion that was measured, `<metric>.ave.pth`.

    A criterion that was finite in no epoch has no average; that is logged.

    Args:
        output_dir: Directory of the run.
        reporter: ESPnet's reporter of the run.
        criteria: `best_model_criterion`: phase, name and mode of each.
        number: Number of epochs to average.
        suffix: Part of the file's name after `ave`.
    """
    for phase, name, mode in criteria:
        metric = f"{phase}.{name}"
        if not reporter.has(phase, name):
            continue
        path = output_dir / (f"{metric}.ave.{suffix}.pth" if suffix else f"{metric}.ave.pth")
        if ranked := rank_epochs(reporter.stats, metric, mode):
            _write_average(path.parent, ranked[:number], path)
        else:
            log.warning("%s is not written, because %s was finite in no epoch", path, metric)


def rank_epochs(stats: Stats, metric: str, mode: str) -> list[int]:
    """Return epochs from best to worst by `metric`; of equal epochs the earlier one ranks higher.

    ESPnet ranks the same way when it deletes epochs (`keep_nbest_models`), so the epochs to average are still there.
    """
    phase, name = metric.split(".", 1)
    values = {epoch: phases.get(phase, {}).get(name, math.nan) for epoch, phases in stats.items()}
    finite = [epoch for epoch, value in values.items() if math.isfinite(value)]
    sign = -1 if mode == "max" else 1
    return sorted(finite, key=lambda epoch: (sign * values[epoch], epoch))


def _write_average(model_dir: Path, epochs: list[int], path: Path) -> None:
    remaining = [epoch for epoch in sorted(epochs) if (model_dir / f"{epoch}epoch.pth").is_file()]
    lost = sorted(set(epochs) - set(remaining))
    if not remaining:
        raise ModelError(f"{model_dir}: no epoch file is left to average; train again")
    if lost:
        log.warning(
            "%s: epochs %s have no file any more (keep_nbest_models); averaging the other %d",
            path,
            " ".join(map(str, lost)),
            len(remaining),
        )
    checkpoint.save(_mean([model_dir / f"{epoch}epoch.pth" for epoch in remaining]), path)
    log.info("%s: average of epochs %s", path, " ".join(map(str, remaining)))


def _mean(files: list[Path]) -> dict[str, Tensor]:
    """Mean of floating-point tensors, computed in double precision; integer tensors come from the last file.

    Tensors that share their memory, such as tied embeddings, do so in the mean.
    """
    total: dict[str, Tensor] = {}
    number = 0
    for file, state in _sound(files):
        shapes = {name: tensor.shape for name, tensor in state.items()}
        if total and shapes != {name: tensor.shape for name, tensor in total.items()}:
            raise ModelError(f"{file}: its parameters differ from those of {files[0].name}; the runs were mixed")
        number += 1
        for name, tensor in state.items():
            if tensor.is_floating_point():
                total[name] = tensor.double() + total.get(name, 0.0)
            else:
                total[name] = tensor
    means: dict[tuple, Tensor] = {}
    for name, tensor in state.items():
        if tensor.is_floating_point():
            memory = (tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else (name,)
            total[name] = means.setdefault(memory, (total[name] / number).to(tensor.dtype))
    return total


def _sound(files: list[Path]) -> Iterator[tuple[Path, dict[str, Tensor]]]:
    """Yield the files that are not damaged, with their content; a warning names the others."""
    fault: ModelError | None = None
    yielded = False
    for file in files:
        try:
            state = checkpoint.load_weights(file)
        except ModelError as error:
            log.warning("%s; averaging the others", error)
            fault = error
            continue
        yielded = True
        yield file, state
    if fault and not yielded:
        raise fault
