"""Comparison of systems: size, speed and scores of several runs, as in the head-selection paper.

Gong et al. 2021, "Pay Better Attention to Attention: Head Selection in Multilingual and Multi-Domain Sequence
Modeling", Tables 1 to 4 and Fig. 2.
"""

import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch import nn

from espnet_diverse.analysis.collect import attentions
from espnet_diverse.analysis.differences import Differences
from espnet_diverse.errors import ConfigError, DataError, ModelError, prefixed
from espnet_diverse.runs.operations import SECONDS, TOKENS, forward_counts, resident
from espnet_diverse.runs.tasks import TASKS, read_config
from espnet_diverse.scoring.groups import OVERALL
from espnet_diverse.scoring.score_file import read_metrics, rows_of
from espnet_diverse.scoring.table import markdown_table
from espnet_diverse.untrusted.whole_files import read_json

_RESAMPLES = re.compile(r"\|(bs|seed):\d+")
COUNTED = (f"GFLOP of {SECONDS} s or {TOKENS} tokens", "MB for it")
"""Titles of the columns of `Size.flops` and `Size.memory`."""
HEADER = ("system", "attention", "heads", "strategy", "pool", "parameters", *COUNTED, "tokens/s")


@dataclass(frozen=True)
class System:
    """One run.

    Attributes:
        name: Name of the system.
        strategy: Strategy of head selection, as in `SelectionOptions`; "none" without selection. If layers have
            adapters it is "adapter", or for example "adapter + group".
        heads: Number of heads H that a sample attends with, in the encoder.
        pool: Number of heads P in the pool, in the encoder; H without selection.
        parameters: Number of parameters of the model, including frozen ones.
        tokens_per_second: Decoded tokens per second; None if decode.json is missing or no token was decoded.
        scores: Scores by row: the whole corpus as "all", then rows, then averages.
        intervals: 95 % intervals of the scores by row, if score.json has them.
        attention: Core of the self-attention of the encoder.
        signature: How the scores were computed; "" if score.json does not state it.
        flops, memory: As in `Size`.
    """

    name: str
    strategy: str
    heads: int
    pool: int
    parameters: int
    tokens_per_second: float | None = None
    scores: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    attention: str = "softmax"
    signature: str = ""
    flops: float = 0
    memory: float = 0

    def score(self) -> float:
        """Return the score to compare by: the average over rows, or the corpus score if there are no rows."""
        return self.scores.get("AVG", self.scores[OVERALL])


def read_system(run: Path, decoded: str, metric: str, name: str | None = None) -> System:
    """Read a run.

    Args:
        run: Directory of the run, with config.yaml.
        decoded: Folder in it with score.json and decode.json.
        metric: A metric of score.json.
        name: Name of the system; by default the name of the directory.

    Raises:
        ConfigError: score.json does not have the metric.
        DataError: A file is missing or damaged.
        ModelError: config.yaml is missing, or the model cannot be built.
    """
    file = run / decoded / "score.json"
    metrics = read_metrics(file)
    if metric not in metrics:
        raise ConfigError(f"{file}: has no {metric}; known: {' '.join(metrics)}")
    rows = {row or OVERALL: entry for row, entry in rows_of(metrics[metric]).items()}
    scores = {row: entry["score"] for row, entry in rows.items()}
    intervals = {row: tuple(entry["interval"]) for row, entry in rows.items() if entry.get("interval")}
    measured = {"tokens_per_second": _tokens_per_second(run / decoded / "decode.json"), "scores": scores}
    signature = rows[OVERALL].get("signature", "")
    return System(name or run.resolve().name, **_size(run), **measured, intervals=intervals, signature=signature)


def check_signatures(systems: Sequence[System]) -> None:
    """Check that scores were computed alike, apart from the resamples of their intervals.

    Raises:
        ConfigError: Two signatures differ.
    """
    known = [system for system in systems if system.signature]
    for other in known[1:]:
        first, second = (_RESAMPLES.sub("", system.signature) for system in (known[0], other))
        if first != second:
            message = f"{known[0].name} ({first}) and {other.name} ({second})"
            raise ConfigError(f"scores of {message} are not comparable; score both with the same options and versions")


def _tokens_per_second(path: Path) -> float | None:
    if not path.exists():
        return None
    try:
        return float(read_json(path)["tokens_per_second"] or 0) or None
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path}: is damaged ({error}); run espnet-diverse decode again") from error


def _size(run: Path) -> dict[str, str | int]:
    """Return the fields of `System` that depend on the configuration alone; the weights are not read."""
    model, config = _built(run)
    layers = attentions(model)["encoder"]
    if not layers:
        raise ModelError(f"{run}: its encoder has no attention heads to compare; leave the run out")
    attention = layers[0]
    selection = getattr(attention, "selection", None)
    adapter = ["adapter"] if any(name.endswith(".adapter") for name, _ in model.named_modules()) else []
    chosen = [selection.options.strategy] if selection else []
    return {
        "strategy": " + ".join(adapter + chosen) or "none",
        "heads": attention.h,
        "pool": selection.pool if selection else attention.h,
        **asdict(_sized(model, config)),
        "attention": getattr(getattr(attention, "core", None), "name", "softmax"),  # ESPnet's own has no core
    }


@dataclass(frozen=True)
class Size:
    """Size of a model, which does not depend on its weights.

    Attributes:
        parameters: Number of parameters, including frozen ones.
        flops: Floating-point operations of a forward pass of one example, see `forward_counts`.
        memory: Bytes of the parameters and of what such a pass has at the same time.
    """

    parameters: int
    flops: float
    memory: float

    def cells(self) -> list[str]:
        """Cells under `COUNTED`."""
        return [f"{self.flops / 1e9:.2f}", f"{self.memory / 1e6:.0f}"]


def read_size(run: Path) -> Size:
    """The size of the model of a run; the weights are not read.

    Raises:
        ModelError: config.yaml is missing, or the model cannot be built.
    """
    return _sized(*_built(run))


def _built(run: Path) -> tuple[nn.Module, dict]:
    """Build the model of a run, with initial weights; return it and its configuration."""
    config_file = run / "config.yaml"
    config = read_config(config_file)
    with prefixed(config_file):
        return TASKS[config["task"]].build_whole_model(Namespace(**config)), config


def _sized(model: nn.Module, config: dict) -> Size:
    counts, parameters = forward_counts(model, config), list(model.parameters())
    memory = resident(parameters, list(model.buffers())) + counts.peak
    return Size(sum(parameter.numel() for parameter in parameters), counts.flops, memory)


def columns(systems: Sequence[System]) -> list[str]:
    """Languages, directions or domains for which a system has a score, in their order."""
    return list(dict.fromkeys(row for system in systems for row in system.scores))


def rows(systems: Sequence[System], names: Sequence[str]) -> list[list[str]]:
    """Cells of a row for each system, under `HEADER` and the scores of `names`, with their intervals if known."""
    cells = []
    for system in systems:
        speed = "–" if system.tokens_per_second is None else f"{system.tokens_per_second:.0f}"
        size = f"{system.parameters / 1e6:.2f} M"
        kind = [system.name, system.attention, str(system.heads), system.strategy, str(system.pool), size]
        kind += [*Size(system.parameters, system.flops, system.memory).cells(), speed]
        cells.append([*kind, *(_score(system, name) for name in names)])
    return cells


def _score(system: System, name: str) -> str:
    if name not in system.scores:
        return "–"
    bounds = system.intervals.get(name)
    return f"{system.scores[name]:.1f}" + (f" ({bounds[0]:.1f} to {bounds[1]:.1f})" if bounds else "")


def table(systems: Sequence[System], metric: str) -> str:
    """Return a Markdown table with a row for each system and a column for each language, direction or domain."""
    names = columns(systems)
    header = [*HEADER, *(f"{metric} {name}" for name in names)]
    return markdown_table(header, rows(systems, names))


def to_dict(systems: Sequence[System], metric: str, differences: Differences | None = None) -> dict:
    """Return the same numbers for JSON, and the numbers of the differences."""
    numbers = {"metric": metric, "systems": [asdict(system) for system in systems]}
    if differences is not None:
        numbers["differences"] = [differences.summary(difference) for difference in differences.found]
    return numbers
