"""The table of runs, `reproduce.yaml`, and that of their scores, `reproduce.tsv`."""

import csv
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from espnet_diverse.cpu.machine import cpu_model
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.data.files.locks import file_lock

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
        if not (EGS / shared["recipe"] / "run.sh").is_file():
            sys.exit(f"error: {path}: {experiment} has the recipe {shared['recipe']}, and {EGS} no such recipe")
        for name, settings in shared["runs"].items():
            _check_keys(settings, RUN_KEYS, f"{path}: {experiment}/{name}")
            seeds = settings.get("seeds", shared["seeds"])
            runs += [Run(experiment, shared, name, seed, settings) for seed in seeds]
        if shared["baseline"] not in shared["runs"]:
            sys.exit(f"error: {path}: {experiment} has no run {shared['baseline']!r}, which is its baseline")
    return sorted(runs, key=lambda run: run.seed)


def _check_keys(given: dict, known: set[str], where: str) -> None:
    if unknown := sorted(set(given) - known):
        sys.exit(f"error: {where} has an unknown key {unknown[0]!r}; known: {' '.join(sorted(known))}")


def read_results(path: Path) -> list[dict[str, str]]:
    """Read the scores of the finished runs, a row for each set."""
    if not path.is_file():
        return []
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    found = []
    for row in rows:
        try:
            int(row["seed"]), float(row["score"])
        except (KeyError, TypeError, ValueError):
            row = {}
        if tuple(row) != COLUMNS or None in row.values():
            sys.exit(f"error: {path}:{rows.line_num}: not a row of {' '.join(COLUMNS)}; mend or delete the line")
        found.append(row)
    return found


def keep_results(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Add rows to the file of results, or put them in the place of those of the same run and set; all or none."""
    with file_lock(path):
        kept = {tuple(str(row[name]) for name in COLUMNS[:4]): row for row in (*read_results(path), *rows)}
        lines = ["\t".join(str(row[name]) for name in COLUMNS) for row in kept.values()]
        write_text(path, "".join(f"{line}\n" for line in ("\t".join(COLUMNS), *lines)))


def missing(runs: Sequence[Run], results: Sequence[Mapping[str, str]]) -> list[Run]:
    """The runs that have no score of one of their sets in the results."""
    done = {(row["experiment"], row["run"], int(row["seed"]), row["set"]) for row in results}
    return [
        run for run in runs if not {(run.experiment, run.name, run.seed, each) for each in run.shared["sets"]} <= done
    ]


def unknown(runs: Sequence[Run], results: Sequence[Mapping[str, str]]) -> list[str]:
    """Labels of results whose run is not in the table of runs."""
    known = {run.label for run in runs}
    labels = dict.fromkeys(f"{row['experiment']}/{row['run']}/{row['seed']}" for row in results)
    return [label for label in labels if label not in known]


def commit_of_code(results: Path) -> str:
    """The commit of the code, with -dirty where other files than the results differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", EGS, *words], capture_output=True, text=True).stdout.rstrip()

    root = Path(git("rev-parse", "--show-toplevel"))
    changed = [root / line[3:] for line in git("status", "--porcelain", "--untracked-files=no").splitlines()]
    return git("describe", "--always") + "-dirty" * any(path.resolve() != results.resolve() for path in changed)


def scores(run: Run, commit: str) -> Iterator[dict[str, Any]]:
    """Rows of the results of a finished run."""
    metric = run.shared["metric"]
    for data_set in run.shared["sets"]:
        score, p_value = _score_of(run, data_set)
        yield {
            **{"experiment": run.experiment, "run": run.name, "seed": run.seed, "set": data_set, "metric": metric},
            **{"score": f"{score:.2f}", "p": p_value, "commit": commit, "processor": cpu_model()},
        }


def _score_of(run: Run, data_set: str) -> tuple[float, str]:
    """Score of a run on a set, and the p-value of its difference from the baseline, where they were compared."""
    folder, metric = run.decoded(run.name, data_set), run.shared["metric"]
    if metric == PERPLEXITY:
        return json.loads((folder / "perplexity.json").read_text(encoding="utf-8"))[metric], ""
    found = json.loads((folder / "score.json").read_text(encoding="utf-8"))["metrics"][metric]
    part = found["averages"][run.shared["row"]] if "row" in run.shared else found["overall"]
    return part["score"], f"{part['baseline']['p_value']:.3f}" if "baseline" in part else ""


def markdown(runs: Sequence[Run], results: Sequence[dict[str, str]]) -> Iterator[str]:
    """Yield the lines of a table for each experiment: mean, standard deviation and number of seeds of each set."""
    for experiment in dict.fromkeys(run.experiment for run in runs):
        shared = next(run.shared for run in runs if run.experiment == experiment)
        yield f"| {experiment} | {' | '.join(shared['sets'])} | seeds |"
        yield "|---" * (len(shared["sets"]) + 2) + "|"
        for name in dict.fromkeys(run.name for run in runs if run.experiment == experiment):
            rows = [row for row in results if (row["experiment"], row["run"]) == (experiment, name)]
            cells = [_cell([float(row["score"]) for row in rows if row["set"] == s]) for s in shared["sets"]]
            yield f"| {name} | {' | '.join(cells)} | {len({row['seed'] for row in rows})} |"


def _cell(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.1f}" if values else ""
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"
