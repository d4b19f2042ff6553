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
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from run_table import (
    EGS,
    PERPLEXITY,
    SYNTHETIC,
    Run,
    commit_of_code,
    keep_results,
    markdown,
    missing,
    read_results,
    read_runs,
    scores,
    unknown,
)

GRACE = 60.0
"""Seconds until what was asked to stop is killed. Training needs at most 25 to end an update and save."""
FINISHED = (0, 2)  # 2: some utterances were skipped
STOPPED = 75  # EX_TEMPFAIL: call again
INTERRUPTED = 130


class Programs:
    """The commands that run at this moment, each in a process group of its own.

    Attributes:
        stopped: Whether all were asked to stop, after which no other one starts.
    """

    def __init__(self):
        self.stopped = False
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.RLock()  # a signal may come while another one is handled

    def run(self, command: Sequence[str], folder: Path, log: Path) -> int:
        """Run a command in a folder, on one thread unless OMP_NUM_THREADS is set, until all its programs have closed
        their output, which is added to a log; its exit code."""
        settings = {"cwd": folder, "env": {"OMP_NUM_THREADS": "1", **os.environ}, "start_new_session": True}
        with self._lock:
            if self.stopped:
                return STOPPED
            process = subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)
            self._running.add(process)
        with process.stdout, log.open("ab", buffering=0) as file:
            shutil.copyfileobj(process.stdout, file)
        with self._lock:
            self._running.remove(process)
        return process.wait()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to all programs, and kill after `GRACE` seconds those that still run."""
        self.stopped = True
        self._send(number)
        killer = threading.Timer(GRACE, self._send, [signal.SIGKILL])
        killer.daemon = True
        killer.start()

    def _send(self, number: int) -> None:
        with self._lock:
            for process in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)


class Walk:
    """Runs that are made, several at a time.

    Args:
        args: Options of the command line.
        waiting: The runs.
    """

    def __init__(self, args: argparse.Namespace, waiting: Sequence[Run]):
        self.args, self.waiting = args, waiting
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
        self._programs = Programs()
        self._preparing = threading.Lock()
        self._interrupted = False

    def work(self) -> int:
        """Make them, print how many are done, and return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as a shell sets it for programs in its background
                signal.signal(number, self._handle)
        if self.args.minutes is not None:
            timer = threading.Timer(60 * self.args.minutes, self._programs.stop)
            timer.daemon = True
            timer.start()
        with ThreadPoolExecutor(self.args.jobs) as pool:
            codes = Counter(pool.map(self._make, self.waiting))
        left = len(self.waiting) - codes[0]
        print(f"{codes[0]} runs done, {left} left")
        return INTERRUPTED if left and self._interrupted else STOPPED if codes[STOPPED] else min(left, 1)

    def _handle(self, number: int, _frame: object) -> None:
        self._interrupted |= number == signal.SIGINT
        self._programs.stop(number)

    def _make(self, run: Run) -> int:
        """Make a run, unless another call has made it meanwhile; 0, `STOPPED` or 1 as it is done, stopped or failed."""
        log = run.folder.with_name(f"{run.folder.name}.log")  # not with_suffix: names such as alpha_0.001 have a dot
        try:
            code = self._commands(run, log)
        except (OSError, LookupError, TypeError, ValueError) as error:  # in what a command wrote; the others go on
            print(f"{run.label}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            code = 1
        if code in (0, STOPPED) or self._programs.stopped:
            return code and STOPPED
        print(f"error: {run.label} failed; its log is {log}", file=sys.stderr, flush=True)
        return 1

    def _commands(self, run: Run, log: Path) -> int:
        if self._programs.stopped or not missing([run], read_results(self.args.results)):
            return STOPPED * self._programs.stopped
        print(f"{run.label}: log {log}", flush=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        options, commit = self.args.recipe_options.split(), commit_of_code(self.args.results)

        def execute(*more: str) -> int:
            code = self._programs.run(run.command(self.corpora, *options, *more), run.recipe, log)
            return 0 if code in FINISHED else code

        with self._preparing:  # of data that the runs of an experiment share
            code = execute("--stop_stage", "tokens")
        code = code or execute()
        for comparison in [] if code else _comparisons(run):
            code = code or execute(*comparison)
        if code:
            return code
        rows = list(scores(run, commit))
        keep_results(self.args.results, rows)
        shown = ", ".join(f"{row['set']} {row['score']}" for row in rows)
        print(f"{run.label}: {shown} (expected: {run.settings.get('expected', 'not said')})", flush=True)
        return 0


def _comparisons(run: Run) -> list[Sequence[str]]:
    """Options that score a run once more, against the baseline of the same seed, where that was decoded before."""
    found = []
    for data_set in run.shared["sets"] if run.shared["metric"] != PERPLEXITY else ():
        baseline = run.decoded(run.shared["baseline"], data_set) / "text"
        if run.name != run.shared["baseline"] and baseline.is_file():
            options = f"{run.shared.get('score_options', '')} --baseline {baseline.relative_to(run.recipe)}"
            found.append(("--stage", "score", "--test_sets", data_set, "--score_options", options))
    return found


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
    if args.action == "run":
        return Walk(args, waiting).work()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end in silence where `| head` has seen enough
    listed = [
        f"{'waiting' if run in waiting else 'done   '}  {run.label}  {run.settings.get('expected', '')}" for run in runs
    ]
    print("\n".join(listed if args.action == "list" else markdown(runs, results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
