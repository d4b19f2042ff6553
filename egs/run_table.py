"""The table of runs, `reproduce.yaml`, and that of their scores, `reproduce.tsv`."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from espnet_diverse.data.atomic_files import write_text
from espnet_diverse.data.locks import file_lock

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
    """Read the scores of the finished runs, a row for each set. Half of a last line, whose writer was killed, is left
    out with a notice."""
    if not path.is_file():
        return []
    *lines, rest = path.read_text(encoding="utf-8").split("\n")
    if rest.count("\t") + 1 == len(COLUMNS):
        lines.append(rest)
    elif rest:
        print(f"notice: {path}: its last line is not whole, so it is left out: {rest[:60]}", file=sys.stderr)
    rows = [dict(zip(COLUMNS, line.split("\t"), strict=False)) for line in lines]
    for number, row in enumerate(rows, start=1):
        if fault := _fault(row, number == 1, lines[number - 1].count("\t") + 1):
            sys.exit(f"error: {path}:{number}: {fault}; mend or delete the line")
    return rows[1:]


def _fault(row: Mapping[str, str], is_header: bool, cells: int) -> str:
    if is_header:
        return "" if tuple(row.values()) == COLUMNS else f"is not the line of titles {' '.join(COLUMNS)}"
    if cells != len(COLUMNS):
        return f"has {cells} cells, not {len(COLUMNS)}"
    try:
        int(row["seed"]), float(row["score"])
    except ValueError:
        return f"seed {row['seed']!r} or score {row['score']!r} is no number"
    return ""


def keep_results(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Add rows to the file of results, or put them in the place of those of the same run and set; all or none."""
    lines = ["\t".join(str(row[column]) for column in COLUMNS) for row in rows]
    with file_lock(path):
        fresh = {tuple(line.split("\t")[:4]) for line in lines}
        before = ["\t".join(row.values()) for row in read_results(path)]
        kept = [line for line in before if tuple(line.split("\t")[:4]) not in fresh]
        write_text(path, "".join(f"{line}\n" for line in ("\t".join(COLUMNS), *kept, *lines)))


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
