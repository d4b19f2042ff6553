#!/usr/bin/env python3
"""Run the experiments of a table: train, decode and score the runs that have no results yet.

    egs/reproduce.py list
    egs/reproduce.py run --corpus multi30k=DIR --only 'multi30k/*' --jobs 2
    egs/reproduce.py table

reproduce.yaml lists the runs: for each experiment a recipe and shared settings, and for each run its fragments, seeds,
and the result that was expected before the run. Each finished run appends its scores to reproduce.tsv; if the baseline
with the same seed was decoded before, they include the p-value of a paired bootstrap test. A run with scores for all
its sets is done. `--minutes 10` limits the time. At the end of that time, and on SIGTERM, SIGINT and SIGHUP, the
running programs are asked to stop, and killed after a minute. Another call continues training within the epoch and
decoding after its last batch; other stages restart.

The exit code is 0 when all runs are done, 75 if another call can continue (130 after SIGINT), and 1 when all remaining
runs have failed. The engine is that of `espnet-diverse contest`.
"""

import argparse
import fnmatch
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.contest.programs import Programs
from espnet_diverse.contest.run_queue import Walk
from espnet_diverse.contest.runs import SYNTHETIC, Run, read_runs
from espnet_diverse.contest.scores import markdown, missing, read_results, unknown
from espnet_diverse.errors import UserError

EGS = Path(__file__).resolve().parent


def arguments() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("list", "run", "table"))
    parser.add_argument("--only", default="*", help="pattern of experiment/run/seed, such as 'multi30k/sdma*/0'")
    parser.add_argument("--corpus", action="append", default=[], metavar="NAME=DIR", help="folder of a corpus")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time, each on one thread (default: 1)")
    parser.add_argument(
        "--minutes", type=float, help="stop then; the next call continues, from within an epoch of training"
    )
    parser.add_argument("--recipe_options", default="", help="further options of run.sh, such as '--ngpu 1'")
    parser.add_argument("--table", type=Path, default=EGS / "reproduce.yaml", help="table of runs")
    parser.add_argument("--results", type=Path, default=EGS / "reproduce.tsv", help="file of results")
    return parser.parse_args()


def corpora(given: Sequence[str]) -> dict[str, str]:
    """Folders of corpora by name; recipes run in their own folders."""
    for pair in given:
        if "=" not in pair:
            sys.exit(f"error: --corpus {pair} is not NAME=DIR")
    return {name: str(Path(folder).absolute()) for name, folder in (pair.split("=", 1) for pair in given)}


def work(args: argparse.Namespace, waiting: Sequence[Run], given: dict[str, str]) -> int:
    """Make the runs; return the exit code."""
    if args.jobs < 1:
        sys.exit(f"error: --jobs {args.jobs} is no number of runs; give 1 or more")
    for run in waiting:
        if (name := run.shared["corpus"]) not in {SYNTHETIC, *given}:
            sys.exit(f"error: {run.label} needs a corpus; give --corpus {name}=DIR, or leave it out by --only")
    programs = Programs()
    with programs.stopping(args.minutes):
        return Walk(waiting, args.results, programs, args.jobs, compares=True).work()


def main() -> int:
    """Run the command line."""
    args = arguments()
    given = corpora(args.corpus)
    known = read_runs(args.table, EGS, given, args.recipe_options.split())
    results = read_results(args.results)
    runs = [run for run in known if fnmatch.fnmatch(run.label, args.only)]
    if not runs:
        sys.exit(f"error: no run of {args.table} matches --only '{args.only}'; `list` shows all")
    if others := unknown(known, results):
        print(f"notice: {args.results} has scores of {' '.join(others)}, which {args.table} lacks", file=sys.stderr)
    waiting = missing(runs, results)
    if args.action == "run":
        return work(args, waiting, given)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end in silence where `| head` has seen enough
    listed = [
        f"{'waiting' if run in waiting else 'done   '}  {run.label}  {run.settings.get('expected', '')}" for run in runs
    ]
    print("\n".join(listed if args.action == "list" else markdown(runs, results)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {error.filename}: {error.strerror}")
