"""The table of runs, `reproduce.yaml`, and that of their scores, `reproduce.tsv`."""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

EGS = Path(__file__).resolve().parent
COLUMNS = ("experiment", "run", "seed", "set", "metric", "score", "p", "commit", "processor")
KEYS = {
    *("recipe", "corpus", "prepared", "options", "config", "decode_config"),
    *("metric", "row", "score_options", "sets", "baseline", "seeds", "runs"),
}
RUN_KEYS = {"fragments", "expected", "set", "seeds", "init_param"}
SYNTHETIC = "synthetic"  # the corpus that the recipe generates
PERPLEXITY = "word_perplexity"  # the metric of language models, which the stage decode computes


@dataclass(frozen=True, eq=False)
class Run:
    """One training run with one seed.

    Attributes:
        experiment: Name of the experiment that it belongs to.
        shared: The settings of that experiment, see `reproduce.yaml`.
        name: Name in the experiment.
        seed: Random seed.
        settings: Its own settings: `fragments`, `expected`, and `set`, a list of changes of the configuration,
            and `init_param`, the weights that it begins with, in which {seed} stands for the seed.
    """

    experiment: str
    shared: dict[str, Any]
    name: str
    seed: int
    settings: dict[str, Any]

    @property
    def label(self) -> str:
        """Its name in messages and for --only."""
        return f"{self.experiment}/{self.name}/{self.seed}"

    @property
    def folder(self) -> Path:
        """Its folder in the recipe's exp/."""
        return self.recipe / "exp" / self.tag(self.name)

    @property
    def recipe(self) -> Path:
        """The folder of the recipe."""
        return EGS / self.shared["recipe"]

    def tag(self, name: str) -> str:
        """Name of the folder of a run of this experiment and seed."""
        return f"{self.experiment}_{name}_seed{self.seed}"

    def decoded(self, name: str, data_set: str) -> Path:
        """Folder of the hypotheses of a run of this experiment and seed on a set."""
        fragments = self.shared.get("decode_config", "decode").split(",")
        return self.recipe / "exp" / self.tag(name) / "_".join(Path(each).stem for each in fragments) / data_set

    def command(self, corpora: dict[str, str], *more: str) -> list[str]:
        """The command of the recipe, to be started in its folder."""
        shared, folder = self.shared, corpora.get(self.shared["corpus"], "")
        source = ["--corpus_dir", folder, "--data_dir", f"data/{self.experiment}"]
        if shared["corpus"] == SYNTHETIC:
            source = ["--corpus", SYNTHETIC, "--data_dir", f"data/{self.experiment}"]
        elif shared.get("prepared"):
            source = ["--data_dir", folder, "--stage", "tokens"]
        changes = [word for change in self.settings.get("set", ()) for word in ("--set", change)]
        if "init_param" in self.settings:
            changes += ["--init_param", self.settings["init_param"].format(seed=self.seed)]
        return [
            *("./run.sh", *source, "--tag", self.tag(self.name), "--seed", str(self.seed)),
            *("--config", shared["config"].format(self.settings["fragments"]), *changes),
            *("--test_sets", " ".join(shared["sets"]), *shared.get("options", ())),
            *(["--decode_config", shared["decode_config"]] if "decode_config" in shared else []),
            *(["--metric", shared["metric"]] if shared["metric"] != PERPLEXITY else []),
            *(["--score_options", shared["score_options"]] if "score_options" in shared else []),
            *more,
        ]


def read_runs(path: Path) -> list[Run]:
    """Read the table of runs: all runs of the first seed, then all of the second, and so on."""
    runs = []
    for experiment, shared in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        _check_keys(shared, KEYS, f"{path}: {experiment}")
        for name, settings in shared["runs"].items():
            _check_keys(settings, RUN_KEYS, f"{path}: {experiment}/{name}")
            seeds = settings.get("seeds", shared["seeds"])
            runs += [Run(experiment, shared, name, seed, settings) for seed in seeds]
    return sorted(runs, key=lambda run: run.seed)


def _check_keys(given: dict, known: set[str], where: str) -> None:
    if unknown := sorted(set(given) - known):
        sys.exit(f"error: {where} has an unknown key {unknown[0]!r}; known: {' '.join(sorted(known))}")


def read_results(path: Path) -> list[dict[str, str]]:
    """Read the scores of the finished runs, a row for each set."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def missing(runs: Sequence[Run], results: Path) -> list[Run]:
    """The runs that have no scores in the file of results."""
    done = {(row["experiment"], row["run"], int(row["seed"])) for row in read_results(results)}
    return [run for run in runs if (run.experiment, run.name, run.seed) not in done]
