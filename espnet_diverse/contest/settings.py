"""Settings of a contest: methods, seeds and one budget for all, checked before anything runs and kept beside the runs.

The first method is the baseline. A contest that is resumed must have the settings that it began with; more methods,
seeds and sets may be added.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from espnet_diverse.contest.data_runs import DataRun
from espnet_diverse.contest.options import Budget
from espnet_diverse.contest.programs import environment
from espnet_diverse.contest.runs import RESOURCES, RUN_KEYS, RecipeRun, Run, check_keys, stems
from espnet_diverse.data.digests import is_data_directory
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.errors import ConfigError, DataError, prefixed
from espnet_diverse.option_checks import SEED, Rule
from espnet_diverse.runs.condition_names import condition_table
from espnet_diverse.runs.config import CONF_DIR, Config, differences, merge
from espnet_diverse.runs.criteria import preferred_metrics
from espnet_diverse.untrusted.foreign_yaml import read_yaml, shortened

RECORD = "contest.yaml"
"""File of the settings in the folder of a contest."""
METRICS = {"asr": "cer", "st": "bleu", "mt": "bleu", "nar": "bleu", "lm": "word_perplexity", "cls": "accuracy"}
"""Metric of each task, unless another one is asked for."""
_BUDGET = (
    *("max_epoch", "num_iters_per_epoch", "accum_grad", "patience"),
    *("batch_type", "batch_size", "batch_bins", "valid_batch_size", "valid_batch_bins"),
)
"""Keys that would give methods different numbers of updates or batch sizes."""
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}")


def methods(names: Sequence[str], file: Path | None, common: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings of the methods by name.

    Args:
        names: Fragments joined by commas, or NAME=FRAGMENTS.
        file: YAML of settings by name: `fragments`, and optionally `set`, `seeds`, `init_param`.
        common: Changes of the configuration of all methods, which come before their own.

    Raises:
        ConfigError: A method has no fragments or an unknown key, a name is given twice or is no name of a file, or
            there are fewer than two methods.
    """
    by_name: dict[str, dict[str, Any]] = {}
    for argument in names:
        name, equals, fragments = argument.partition("=")
        if not equals:
            name, fragments = stems(argument), argument
        _add(by_name, name, {"fragments": fragments}, argument)
    if file is not None:
        for name, settings in merge([file]).items():
            if not isinstance(settings, Mapping) or not isinstance(settings.get("fragments"), str):
                raise ConfigError(f"{file}: {name} has no fragments; write {{fragments: attention/sdma}}")
            check_keys(settings, RUN_KEYS, f"{file}: {name}")
            _check_settings(settings, f"{file}: {name}")
            _add(by_name, str(name), dict(settings), f"{file}: {name}")
    if len(by_name) < 2:
        raise ConfigError(f"a contest needs two methods or more, the first as the baseline; given: {len(by_name)}")
    return {name: {**method, "set": [*common, *method.get("set", ())]} for name, method in by_name.items()}


def _check_settings(settings: Mapping[str, Any], where: str) -> None:
    """Check the values of a method in a YAML file."""
    changes = settings.get("set", [])
    _check_seeds(f"{where}: seeds", settings.get("seeds", [0]))
    if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
        raise ConfigError(f"{where}: set must be a list of changes such as [max_epoch=3], but is {changes!r}")
    if not isinstance(settings.get("init_param", ""), str):
        raise ConfigError(f"{where}: init_param must be a path, but is {settings['init_param']!r}")


def _check_seeds(name: str, seeds: Any) -> None:
    """Check the seeds of a method.

    Raises:
        ConfigError: They are no list of seeds, or one is given twice; the message begins with `name`.
    """
    Rule(list, least=1, of=SEED).check(name, seeds)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"{name} {' '.join(map(str, seeds))}: a seed is given twice; give each once")


def _add(by_name: dict[str, dict[str, Any]], name: str, settings: dict[str, Any], where: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: {name!r} is no name of a method; give up to 100 letters, digits, and _ . + -")
    if name in by_name:
        raise ConfigError(f"{where}: there is a method {name!r} already; give NAME=FRAGMENTS with another name")
    by_name[name] = settings


@dataclass(frozen=True)
class Contest:
    """A contest.

    Attributes:
        output_dir: Its folder.
        methods: Settings of the methods by name, the first of which is the baseline.
        seeds: Seeds of methods without seeds of their own.
        shared: What all runs share, see `runs.Run` and `data_runs.DataRun`; `config` with {} or without, in which case
            the fragments of a method come last.
        budget: The training of each method.
        data_dir: Folder of the data directories; None with a recipe.
        recipe: Folder of the recipe; None with data directories.
        recipe_options: Options of run.sh.
    """

    output_dir: Path
    methods: dict[str, dict[str, Any]]
    seeds: Sequence[int]
    shared: dict[str, Any]
    budget: Budget
    data_dir: Path | None = None
    recipe: Path | None = None
    recipe_options: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_seeds("--seeds", self.seeds)

    @cached_property
    def name(self) -> str:
        """Name of the contest, in its scores: the name of its folder when it began."""
        return _former(self.output_dir / RECORD).get("name") or self.output_dir.resolve().name

    @property
    def results(self) -> Path:
        """File of the scores."""
        return self.output_dir / "contest.tsv"

    def merged(self) -> dict[str, Config]:
        """The configuration of each method, without budget and seed.

        Raises:
            ConfigError: Fragments or changes are wrong, or a method has a budget of its own.
        """
        config = self._config()
        search = [self.recipe or Path(), CONF_DIR]
        configs = {}
        for name, settings in self.methods.items():
            with prefixed(f"method {name}"):
                configs[name] = merge(config.replace("{}", settings["fragments"]).split(","), settings["set"], search)
        first, baseline = next(iter(configs.items()))
        for name, settings in configs.items():
            for key in _BUDGET:
                if settings.get(key) != baseline.get(key):
                    message = (
                        f"{settings.origin(key)}: method {name} has {key} {settings.get(key)}, "
                        f"and {first} {baseline.get(key)}"
                    )
                    raise ConfigError(f"{message}; all methods need one budget: set it in the base configuration")
        return configs

    def runs(self) -> list[Run]:
        """The runs: all of the first seed, in the order of the methods, then all of the second, and so on.

        Raises:
            ConfigError: As for `merged` and `Budget.changes`.
        """
        configs = self.merged()
        first = next(iter(configs))
        shared = {**self.shared, "config": self._config(), "baseline": first}
        if self.recipe is None:
            criterion = preferred_metrics({**configs[first], "task": shared["task"]})[0]
            shared["average"] = (criterion, shared["average_number"])
            shared["pairs"] = configs[first].get("classifier") == "self_attentive_pair"
        runs = []
        for name, method in self.methods.items():
            settings = {**method, "set": [*method["set"], *self.budget.changes(configs[name])]}
            runs += [self._run(shared, name, seed, settings) for seed in method.get("seeds", self.seeds)]
        return sorted(runs, key=lambda run: run.seed)

    def check_data(self) -> None:
        """Check that there are data directories of all sets, with the tables that they need; a recipe makes its own.

        Raises:
            DataError: One is missing.
        """
        needed = {}
        config = next(iter(self.merged().values()))
        if isinstance(classes := config.get("classifier_conf", {}).get("by"), str):
            needed[condition_table(Path(), classes).name] = "so there is no accuracy; add the classes"
        if self.shared["task"] == "mt":
            from espnet_diverse.runs.tasks import source_table  # takes seconds

            needed[source_table(config)] = "which the model translates; add the texts"
        for name in (self.shared["train"], self.shared["valid"], *self.shared["sets"]) if self.data_dir else ():
            folder = self.data_dir / name
            if not is_data_directory(folder):
                raise DataError(f"{folder}: is no data directory; name the sets of {self.data_dir}")
            for table, reason in needed.items():
                if not (folder / table).is_file():
                    raise DataError(f"{folder / table}: is missing, {reason}, or leave the set out")

    def _run(self, shared: Mapping[str, Any], name: str, seed: int, settings: Mapping[str, Any]) -> Run:
        if self.recipe is None:
            return DataRun(self.name, shared, name, seed, settings, self.data_dir, self.output_dir)
        return RecipeRun(self.name, shared, name, seed, settings, self.recipe, (), self.recipe_options)

    def _config(self) -> str:
        config = self.shared["config"]
        return config if "{}" in config else f"{config},{{}}"

    def keep(self) -> None:
        """Write the settings to `RECORD`, or compare them with the former ones.

        Raises:
            ConfigError: The contest was begun with other settings.
        """
        path = self.output_dir / RECORD
        settings = {
            "budget": vars(self.budget),
            "data": str((self.recipe or self.data_dir).resolve()),
            "recipe_options": list(self.recipe_options),
            "shared": {key: _plain(value) for key, value in self.shared.items() if key not in (*RESOURCES, "sets")},
        }
        configs = {name: _plain(dict(config)) for name, config in self.merged().items()}
        for name, method in self.methods.items():
            if method.get("init_param"):
                configs[name]["init_param"] = method["init_param"]
        if former := _former(path):
            recorded = former.get("methods") or {}
            changed = differences(former.get("settings") or {}, settings) | {
                f"{name}.{key}": change
                for name in configs.keys() & recorded.keys()
                for key, change in differences(recorded[name], configs[name]).items()
            }
            if next(iter(recorded), None) not in (None, next(iter(configs))):
                changed["baseline"] = f"{next(iter(recorded))} -> {next(iter(configs))}"
            if changed:
                key, change = next(iter(changed.items()))
                message = f"{self.output_dir}: this contest was begun with another {key}: {change}"
                raise ConfigError(f"{message}; give the former value, or another --output_dir")
            configs = {**recorded, **configs}
        self.output_dir.mkdir(parents=True, exist_ok=True)
        record = {"name": self.name, "settings": settings, "methods": configs}
        write_text(path, yaml.safe_dump(record, sort_keys=False, allow_unicode=True))


def _former(path: Path) -> dict[str, Any]:
    """The record of a contest that was begun, {} for none.

    Raises:
        ConfigError: A value is not as `Contest.keep` writes it.
        ModelError: The file cannot be read.
    """
    todo = "delete it to begin the contest again"
    record = read_yaml(path, str(path), todo) if path.is_file() else {}
    nested = {f"methods.{name}": settings for name, settings in _mapping(record, "methods", path, todo).items()}
    for key in ("settings", *nested):
        _mapping(record | nested, key, path, todo)
    if not isinstance(record.get("name"), str | None):
        raise ConfigError(f"{path}: name is {shortened(record['name'])}, and must be a text; {todo}")
    return record


def _mapping(record: Mapping[str, Any], key: str, path: Path, todo: str) -> Mapping[str, Any]:
    value = record.get(key)
    if not isinstance(value, dict | None):
        raise ConfigError(f"{path}: {key} is {shortened(value)}, and must be a mapping; {todo}")
    return value or {}


def _plain(value: Any) -> Any:
    """A value as YAML gives it back."""
    return yaml.safe_load(yaml.safe_dump(_in_yaml(value), allow_unicode=True))


def _in_yaml(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_yaml(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_in_yaml(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def recipe_config(recipe: Path, synthetic: bool) -> str:
    """The configuration of a recipe, with {} instead of its attention and without that attention's losses.

    Args:
        recipe: Folder with run.sh.
        synthetic: Whether to take the configuration for the synthetic corpus.

    Raises:
        ConfigError: The folder has no run.sh, or the configuration does not name one attention.
    """
    names = recipe_default(recipe, "config", synthetic).split(",")
    fragments = [name for name in names if not name.startswith("losses/")]  # losses belong to an attention
    places = [number for number, name in enumerate(fragments) if name.startswith("attention/")]
    if len(places) != 1:
        raise ConfigError(f"--recipe {recipe}: its configuration names no attention to replace; give --config")
    fragments[places[0]] = "{}"
    return ",".join(fragments)


def recipe_default(recipe: Path, option: str, synthetic: bool) -> str:
    """The default of an option of a recipe, "" for none; see `recipe_config` for the arguments and the error."""
    return _defaults_of(recipe, synthetic).get(option, "")


@cache
def _defaults_of(recipe: Path, synthetic: bool) -> dict[str, str]:
    if not (recipe / "run.sh").is_file():
        raise ConfigError(f"--recipe {recipe}: has no run.sh; give the folder of a recipe, such as egs/aishell/asr1")
    command = ["./run.sh", *(["--corpus", "synthetic"] if synthetic else []), "--defaults"]
    done = subprocess.run(command, cwd=recipe, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ConfigError(f"--recipe {recipe}: run.sh --defaults failed ({message[:200]}); correct the recipe")
    return dict(line.split("\t", 1) for line in done.stdout.splitlines())
