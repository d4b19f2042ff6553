"""The file of scores: a table with tabs, a row for each run and data set; it also lists the runs that are done."""

import csv
import math
import statistics
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from espnet_diverse.contest.runs import MEASURED_BY_DECODING, Run
from espnet_diverse.cpu.machine import cpu_model
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.data.files.locks import file_lock
from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.whole_files import read_json, read_text

COLUMNS = ("experiment", "run", "seed", "set", "metric", "score", "p", "commit", "processor")


def read_results(path: Path) -> list[dict[str, str]]:
    """Read the scores of the finished runs, a row for each set; none if the file is missing.

    Raises:
        DataError: A row is not a row of scores; the message names its line.
    """
    if not path.is_file():
        return []
    rows = csv.DictReader(read_text(path).splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    results = []
    for row in rows:
        if not _is_row(row):
            raise DataError(f"{path}:{rows.line_num}: not a row of {' '.join(COLUMNS)}; mend or delete the line")
        results.append(row)
    return results


def _is_row(row: Mapping[str, str]) -> bool:
    try:
        int(row["seed"]), float(row["score"])
    except (KeyError, TypeError, ValueError):
        return False
    return tuple(row) == COLUMNS and None not in row.values()


def keep_results(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Add rows to the file of results, replacing rows of the same run and set; all or none are written."""
    with file_lock(path):
        merged = {tuple(str(row[name]) for name in COLUMNS[:4]): row for row in (*read_results(path), *rows)}
        lines = ["\t".join(str(row[name]) for name in COLUMNS) for row in merged.values()]
        write_text(path, "".join(f"{line}\n" for line in ("\t".join(COLUMNS), *lines)))


def missing(runs: Sequence[Run], results: Sequence[Mapping[str, str]]) -> list[Run]:
    """The runs that lack a score of one of their sets in the results."""
    done = {(row["experiment"], row["run"], int(row["seed"]), row["set"]) for row in results}
    return [run for run in runs if not {(run.experiment, run.name, run.seed, name) for name in run.sets} <= done]


def unknown(runs: Sequence[Run], results: Sequence[Mapping[str, str]]) -> list[str]:
    """Labels of results whose run is not among the runs."""
    known = {run.label for run in runs}
    labels = dict.fromkeys(f"{row['experiment']}/{row['run']}/{row['seed']}" for row in results)
    return [label for label in labels if label not in known]


def commit_of_code(results: Path) -> str:
    """The commit of this package, with -dirty if files other than the results differ from it.

    It is the version of the package if the package is not in a repository.
    """
    root = Path(__file__).resolve().parents[2]

    def git(*words: str) -> str:
        try:
            return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True).stdout.rstrip()
        except FileNotFoundError:  # without git
            return ""

    if not (root / "setup.py").is_file() or not (commit := git("describe", "--always")):
        return version("espnet_diverse")
    changed = [root / line[3:] for line in git("status", "--porcelain", "--untracked-files=no").splitlines()]
    return commit + "-dirty" * any(path.resolve() != results.resolve() for path in changed)


def scores(run: Run, commit: str) -> Iterator[dict[str, Any]]:
    """Rows of the results of a finished run.

    Raises:
        DataError: A file of scores is missing.
        LookupError: It does not have the metric, or the row.
    """
    for data_set in run.sets:
        score, p_value = _score_of(run, data_set)
        yield {
            **{"experiment": run.experiment, "run": run.name, "seed": run.seed, "set": data_set},
            **{"metric": run.metric, "score": f"{score:.2f}", "p": p_value, "commit": commit},
            "processor": cpu_model(),
        }


def _score_of(run: Run, data_set: str) -> tuple[float, str]:
    """Score of a run on a set, and the p-value of its difference from the baseline, if they were compared."""
    folder, metric = run.decoded(run.name, data_set), run.metric
    if file := MEASURED_BY_DECODING.get(metric):
        value = read_json(folder / file)[metric]
        return math.inf if value is None else value, ""  # json has no infinite perplexity
    result = read_json(folder / "score.json")["metrics"][metric]
    part = result["averages"][run.shared["row"]] if "row" in run.shared else result["overall"]
    return part["score"], f"{part['baseline']['p_value']:.3f}" if "baseline" in part else ""


def markdown(runs: Sequence[Run], results: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of a table for each experiment: mean, standard deviation and number of seeds of each set."""
    for experiment in dict.fromkeys(run.experiment for run in runs):
        sets = next(run.sets for run in runs if run.experiment == experiment)
        yield f"| {experiment} | {' | '.join(sets)} | seeds |"
        yield "|---" * (len(sets) + 2) + "|"
        for name in dict.fromkeys(run.name for run in runs if run.experiment == experiment):
            rows = [row for row in results if (row["experiment"], row["run"]) == (experiment, name)]
            cells = [mean_cell([float(row["score"]) for row in rows if row["set"] == s]) for s in sets]
            yield f"| {name} | {' | '.join(cells)} | {len({row['seed'] for row in rows})} |"


def mean_cell(values: Sequence[float]) -> str:
    """Mean and standard deviation of the scores of some seeds, as a cell of a table."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return f"{statistics.mean(values):.1f}" if values else ""
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"
