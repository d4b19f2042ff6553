"""One training run with one seed, as commands: of a recipe here, of a data directory in `data_runs.py`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_diverse.data.lines import read_utf8
from espnet_diverse.errors import ConfigError
from espnet_diverse.untrusted.foreign_yaml import kind, parse_own

SYNTHETIC = "synthetic"
"""The corpus that a recipe generates."""
MEASURED_BY_DECODING = {
    **dict.fromkeys(("word_perplexity", "perplexity"), "perplexity.json"),
    "accuracy": "classification.json",
}
"""Metrics that need no scoring, and the file of the decoding stage that has them."""
KEYS = {
    *("recipe", "corpus", "prepared", "options", "config", "decode_config"),
    *("metric", "row", "score_options", "sets", "baseline", "seeds", "runs"),
}
_NEEDED = ("recipe", "corpus", "config", "metric", "sets", "baseline", "seeds", "runs")
RESOURCES = ("nj", "ngpu", "cluster")
"""Settings of a contest that may change while it lasts, which are options of run.sh too."""
RUN_KEYS = {"fragments", "expected", "set", "seeds", "init_param"}


def stems(fragments: str) -> str:
    """Name of fragments joined by commas, as the function `stems` of egs/common/recipe.sh gives it."""
    return "_".join(Path(path).name.removesuffix(".yaml") for path in fragments.split(","))  # Path.stem cuts decode_0.5


@dataclass(frozen=True, eq=False)
class Run(ABC):
    """One training run with one seed.

    Attributes:
        experiment: Name of its experiment.
        shared: The settings of the experiment: `config`, the fragments, in which {} stands for the run's own; `metric`,
            `sets`, `baseline`, and what the kind of run needs.
        name: Name in the experiment.
        seed: Random seed.
        settings: Its own settings: `fragments`, and `set`, a list of changes of the configuration, and `init_param`,
            the weights that it begins with, in which {seed} stands for the seed.
    """

    experiment: str
    shared: Mapping[str, Any]
    name: str
    seed: int
    settings: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Name in messages and for --only."""
        return f"{self.experiment}/{self.name}/{self.seed}"

    @property
    def sets(self) -> list[str]:
        """Names of the data sets that are decoded."""
        return self.shared["sets"]

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return self.shared["metric"]

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.folder_of(self.name)

    @property
    def log(self) -> Path:
        """Log of its commands, beside its folder."""
        return self.folder.with_name(f"{self.folder.name}.log")  # not with_suffix: alpha_0.001 has a dot

    @property
    def config(self) -> str:
        """Fragments of the configuration, joined by commas."""
        return self.shared["config"].replace("{}", self.settings["fragments"])

    @property
    def begun(self) -> list[str]:
        """Option --init_param, if the run begins with weights."""
        path = self.settings.get("init_param")
        return ["--init_param", path.replace("{seed}", str(self.seed))] if path else []

    def changes(self, *more: str) -> list[str]:
        """Options --set: the changes of this run, then others."""
        return [word for change in (*self.settings.get("set", ()), *more) for word in ("--set", change)]

    def decoded(self, name: str, data_set: str) -> Path:
        """Folder of the hypotheses of the run `name` of this experiment and seed on a set."""
        return self.folder_of(name) / stems(self.shared.get("decode_config", "decode")) / data_set

    @property
    @abstractmethod
    def place(self) -> Path:
        """Working directory of its commands."""

    @abstractmethod
    def folder_of(self, name: str) -> Path:
        """Folder of the run `name` of this experiment and seed."""

    @abstractmethod
    def data(self, data_set: str) -> Path:
        """Data directory of a set."""

    @abstractmethod
    def preparation(self) -> list[str]:
        """Command that makes what runs share; one runs at a time."""

    @abstractmethod
    def command(self) -> list[str]:
        """Command that trains, decodes and scores."""

    @abstractmethod
    def trial(self, batches: int) -> tuple[list[str], Path]:
        """Command that trains two epochs of some batches each in a folder of its own, and the folder."""

    def comparisons(self) -> list[list[str]]:
        """Commands that score once more, against the baseline of the same seed, if it was decoded before."""
        return []


@dataclass(frozen=True, eq=False)
class RecipeRun(Run):
    """A run of a recipe.

    Attributes:
        recipe: Folder of the recipe, with run.sh.
        source: Options of run.sh that say where the data come from.
        options: More options of run.sh.
    """

    recipe: Path
    source: Sequence[str] = ()
    options: Sequence[str] = ()

    @property
    def place(self) -> Path:
        """Folder of the recipe."""
        return self.recipe

    def tag(self, name: str) -> str:
        """Name of the folder of a run of this experiment and seed."""
        return f"{self.experiment}_{name}_seed{self.seed}"

    def folder_of(self, name: str) -> Path:
        """Folder in the recipe's exp/ of the run `name`."""
        return self.recipe / "exp" / self.tag(name)

    def data(self, data_set: str) -> Path:
        """Folder of a set in the folder of the option --data_dir."""
        words = [*self.source, *self.shared.get("options", ()), *self.options]
        options = dict(zip(words, words[1:], strict=False))
        default = f"data/{SYNTHETIC}" if options.get("--corpus") == SYNTHETIC else "data"
        return self.recipe / options.get("--data_dir", default) / data_set

    def preparation(self) -> list[str]:
        """Stages data and tokens of the recipe."""
        return self._recipe(self.tag(self.name), [], "--stop_stage", "tokens")

    def command(self) -> list[str]:
        """All stages of the recipe."""
        return self._recipe(self.tag(self.name), [])

    def trial(self, batches: int) -> tuple[list[str], Path]:
        """Stages up to `train`, with two short epochs."""
        tag = f"{self.experiment}_{self.name}_trial"
        changes = ["max_epoch=2", f"num_iters_per_epoch={batches}"]
        return self._recipe(tag, changes, "--stop_stage", "train"), self.recipe / "exp" / tag

    def comparisons(self) -> list[list[str]]:
        """The stage score of each set, with the option --baseline."""
        commands = []
        for data_set in self.sets if self.metric not in MEASURED_BY_DECODING else ():
            baseline = self.decoded(self.shared["baseline"], data_set) / "text"
            if self.name != self.shared["baseline"] and baseline.is_file():
                options = f"{self.shared.get('score_options', '')} --baseline {baseline.relative_to(self.recipe)}"
                words = ("--stage", "score", "--test_sets", data_set, "--score_options", options)
                commands.append(self._recipe(self.tag(self.name), [], *words))
        return commands

    def _recipe(self, tag: str, changes: Sequence[str], *arguments: str) -> list[str]:
        """Call run.sh, to be started in its folder."""
        shared = self.shared
        return [
            *("./run.sh", *self.source, "--tag", tag, "--seed", str(self.seed)),
            *("--config", self.config, *self.changes(*changes), *self.begun),
            *("--test_sets", " ".join(shared["sets"]), *shared.get("options", ())),
            *(["--decode_config", shared["decode_config"]] if "decode_config" in shared else []),
            *(["--metric", shared["metric"]] if shared["metric"] not in MEASURED_BY_DECODING else []),
            *(["--score_options", shared["score_options"]] if "score_options" in shared else []),
            *(word for name in RESOURCES if shared.get(name, "") != "" for word in (f"--{name}", str(shared[name]))),
            *self.options,
            *arguments,
        ]


def read_runs(path: Path, egs: Path, corpora: Mapping[str, str], options: Sequence[str] = ()) -> list[Run]:
    """Read a table of runs of recipes: all runs of the first seed, then all of the second, and so on.

    Args:
        path: YAML of experiments by name, each a mapping with `KEYS`, whose `runs` have `RUN_KEYS`.
        egs: Folder of the recipes.
        corpora: Folders of corpora by name.
        options: More options of run.sh.

    Raises:
        OSError: The table cannot be read.
        ConfigError: It is no YAML of experiments, a key is unknown or missing, or a recipe or baseline does not exist.
    """
    runs = []
    experiments, _ = parse_own(read_utf8(path, str(path), error=ConfigError), str(path))
    for experiment, shared in _mapping(experiments, str(path)).items():
        check_keys(_mapping(shared, f"{path}: {experiment}"), KEYS, f"{path}: {experiment}", _NEEDED)
        recipe = egs / shared["recipe"]
        if not (recipe / "run.sh").is_file():
            raise ConfigError(f"{path}: {experiment} has the recipe {shared['recipe']}, and {egs} no such recipe")
        source = _source(experiment, shared, corpora)
        for name, settings in _mapping(shared["runs"], f"{path}: {experiment}: runs").items():
            where = f"{path}: {experiment}/{name}"
            check_keys(_mapping(settings, where), RUN_KEYS, where, ["fragments"])
            for seed in settings.get("seeds", shared["seeds"]):
                runs.append(RecipeRun(experiment, shared, name, seed, settings, recipe, source, options))
        if shared["baseline"] not in shared["runs"]:
            raise ConfigError(f"{path}: {experiment} has no run {shared['baseline']!r}, which is its baseline")
    return sorted(runs, key=lambda run: run.seed)


def _source(experiment: str, shared: Mapping[str, Any], corpora: Mapping[str, str]) -> list[str]:
    """Options of run.sh that say where the data of an experiment come from."""
    folder = corpora.get(shared["corpus"], "")
    if shared["corpus"] == SYNTHETIC:
        return ["--corpus", SYNTHETIC, "--data_dir", f"data/{experiment}"]
    if shared.get("prepared"):
        return ["--data_dir", folder, "--stage", "tokens"]
    return ["--corpus_dir", folder, "--data_dir", f"data/{experiment}"]


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is {kind(value)}; give a mapping")
    return value


def check_keys(method: Mapping[str, Any], known: set[str], where: str, needed: Sequence[str] = ()) -> None:
    """Refuse unknown keys of a section of a table of runs, and missing ones that are needed.

    Raises:
        ConfigError: A key is unknown or missing; the message begins with `where`.
    """
    if unknown := sorted(set(method) - known):
        raise ConfigError(f"{where} has an unknown key {unknown[0]!r}; known: {' '.join(sorted(known))}")
    if lacking := [key for key in needed if key not in method]:
        raise ConfigError(f"{where} has no {lacking[0]}; needed: {' '.join(needed)}")
