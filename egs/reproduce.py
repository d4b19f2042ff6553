#!/usr/bin/env python3
"""Walk through a table of training runs: train, decode and score those whose results are not there yet.

    egs/reproduce.py list
    egs/reproduce.py run --corpus multi30k=DIR --only 'multi30k/*' --jobs 2
    egs/reproduce.py table

reproduce.yaml holds the runs: a recipe, what all runs of an experiment share, and for each run its fragments, its seeds
and the figure that was expected before it was run. Each finished run adds its scores to reproduce.tsv; if the baseline
of the same seed was decoded before, the p-value of a paired bootstrap test stands beside them. A run with scores of all
its sets there is done. `--minutes 10` cuts the work into pieces. Then, and on SIGTERM, SIGINT and SIGHUP, the programs
that run are asked to stop, and what has not ended a minute later is killed. Training saves within the epoch and another
call goes on from there; another stage that was stopped begins again.

The exit code is 0 when all runs are done, 75 as long as another call has something to go on with (130 after SIGINT),
and 1 when all runs that are left have failed.
"""

import argparse
import fnmatch
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from job_pool import Job, Pool
from run_table import EGS, PERPLEXITY, SYNTHETIC, Run, keep_results, missing, read_results, read_runs, unknown

from espnet_diverse.machine import cpu_model

STOPPED = 75  # EX_TEMPFAIL: call again
INTERRUPTED = 130


def main() -> int:
    """Run the command line."""
    args = arguments()
    known, results = read_runs(args.table), read_results(args.results)
    runs = [run for run in known if fnmatch.fnmatch(run.label, args.only)]
    if not runs:
        sys.exit(f"error: no run of {args.table} matches --only '{args.only}'; `list` shows all")
    if others := unknown(known, results):
        print(f"notice: {args.results} has scores of {' '.join(others)}, which {args.table} lacks", file=sys.stderr)
    waiting = missing(runs, results)
    if args.action != "run":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end in silence where `| head` has seen enough
    if args.action == "table":
        print("\n".join(markdown(runs, results)))
        return 0
    if args.action == "list":
        for run in runs:
            print("waiting" if run in waiting else "done   ", run.label, run.settings.get("expected", ""), sep="  ")
        return 0
    return Walk(args, waiting).work()


def arguments() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("list", "run", "table"))
    parser.add_argument("--only", default="*", help="pattern of experiment/run/seed, such as 'multi30k/sdma*/0'")
    parser.add_argument("--corpus", action="append", default=[], metavar="NAME=DIR", help="folder of a corpus")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time, each on one thread (default: 1)")
    parser.add_argument(
        "--minutes", type=float, help="stop then; the next call goes on, from within an epoch of training"
    )
    parser.add_argument("--recipe_options", default="", help="further options of run.sh, such as '--ngpu 1'")
    parser.add_argument("--table", type=Path, default=EGS / "reproduce.yaml", help="table of runs")
    parser.add_argument("--results", type=Path, default=EGS / "reproduce.tsv", help="file of results")
    return parser.parse_args()


class Walk:
    """The commands of the runs that are to be made, and the scores of those that are done.

    Args:
        args: Options of the command line.
        waiting: The runs.
    """

    def __init__(self, args: argparse.Namespace, waiting: Sequence[Run]):
        self.args = args
        if args.jobs < 1:
            sys.exit(f"error: --jobs {args.jobs} is no number of runs; give 1 or more")
        for pair in args.corpus:
            if "=" not in pair:
                sys.exit(f"error: --corpus {pair} is not NAME=DIR")
        pairs = [pair.split("=", 1) for pair in args.corpus]
        self.corpora = {name: str(Path(folder).absolute()) for name, folder in pairs}  # recipes run in their folders
        for run in waiting:
            name = run.shared["corpus"]
            if name not in {SYNTHETIC, *self.corpora}:
                sys.exit(f"error: {run.label} needs a corpus; give --corpus {name}=DIR, or leave it out by --only")
        self.jobs = [Job(run.label, run.recipe, log_of(run), self._commands(run)) for run in waiting]

    def work(self) -> int:
        """Make them, print how many are done, and return the exit code."""
        minutes = float("inf") if self.args.minutes is None else self.args.minutes
        pool = Pool(self.args.jobs, time.monotonic() + 60 * minutes)
        pool.work(self.jobs)
        for job in self.jobs:
            if job.state == "failed":
                print(f"error: {job.name} failed; its log is {job.log}", file=sys.stderr)
        left = sum(job.state != "done" for job in self.jobs)
        print(f"{len(self.jobs) - left} runs done, {left} left")
        if left and signal.SIGINT in pool.signals:
            return INTERRUPTED
        return STOPPED if any(job.state not in ("done", "failed") for job in self.jobs) else min(left, 1)

    def _commands(self, run: Run) -> Iterator[list[str]]:
        """The commands of a run, none if another call has made it meanwhile. The first prepares the data that the runs
        of an experiment share."""
        if not missing([run], read_results(self.args.results)):
            return
        options, commit = self.args.recipe_options.split(), _commit(self.args.results)
        yield run.command(self.corpora, *options, "--stop_stage", "tokens")
        yield run.command(self.corpora, *options)
        for comparison in _comparisons(run):
            yield run.command(self.corpora, *options, *comparison)
        self._keep_scores(run, commit)

    def _keep_scores(self, run: Run, commit: str) -> None:
        rows = list(scores(run, commit))
        keep_results(self.args.results, rows)
        shown = ", ".join(f"{row['set']} {row['score']}" for row in rows)
        print(f"{run.label}: {shown} (expected: {run.settings.get('expected', 'not said')})", flush=True)


def _comparisons(run: Run) -> Iterator[Sequence[str]]:
    """Options that score a run once more, against the baseline of the same seed, where that was decoded before."""
    for data_set in run.shared["sets"] if run.shared["metric"] != PERPLEXITY else ():
        baseline = run.decoded(run.shared["baseline"], data_set) / "text"
        if run.name != run.shared["baseline"] and baseline.is_file():
            options = f"{run.shared.get('score_options', '')} --baseline {baseline.relative_to(run.recipe)}"
            yield "--stage", "score", "--test_sets", data_set, "--score_options", options


def log_of(run: Run) -> Path:
    """The log of a run."""
    return run.folder.with_name(f"{run.folder.name}.log")  # not with_suffix: names such as alpha_0.001 have a dot


def _commit(results: Path) -> str:
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


if __name__ == "__main__":
    sys.exit(main())
