"""A queue of runs, several of them at a time; runs whose scores are in the file of results are skipped."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from espnet_diverse.contest.programs import FINISHED, STOPPED, Programs
from espnet_diverse.contest.runs import Run
from espnet_diverse.contest.scores import commit_of_code, keep_results, missing, read_results, scores

LEFT_OUT = -1
"""Code of a run that `leave_out` gives a reason against."""


class Walk:
    """A walk through runs.

    Args:
        runs: The runs, ordered by seed.
        results: File of their scores.
        programs: Runs their commands.
        jobs: Number of runs at the same time.
        leave_out: Function of a run and the scores so far, called before the run, that returns a reason to leave it
            out, or None. With it, the runs of a seed begin when all of the seed before have ended.
        compares: Whether each run is scored once more against the baseline of its seed, if it was decoded before.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        results: Path,
        programs: Programs,
        jobs: int = 1,
        leave_out: Callable[[Run, Sequence[dict[str, str]]], str | None] | None = None,
        compares: bool = False,
    ):
        self.runs, self.results, self.programs, self.jobs = runs, results, programs, jobs
        self.leave_out, self.compares = leave_out, compares
        self._preparing = threading.Lock()

    def work(self) -> int:
        """Make the runs, print how many are done, and return the exit code.

        It is 0 when all runs are done or left out, `Programs.exit_code` as long as another call can continue, and 1
        when all runs that are left have failed.
        """
        rounds = [list(group) for _, group in groupby(self.runs, lambda run: run.seed)]
        codes: Counter[int] = Counter()
        with ThreadPoolExecutor(self.jobs) as pool:
            for runs in rounds if self.leave_out else [self.runs]:
                codes.update(pool.map(self._make, runs))
        remaining = len(self.runs) - codes[0] - codes[LEFT_OUT]
        left_out = f"{codes[LEFT_OUT]} left out, " if codes[LEFT_OUT] else ""
        again = "; the same command continues from there" if codes[STOPPED] else ""
        print(f"{codes[0]} runs done, {left_out}{remaining} left{again}", flush=True)
        return self.programs.exit_code if codes[STOPPED] else min(remaining, 1)

    def _make(self, run: Run) -> int:
        """Make a run, unless another call has made it meanwhile.

        Returns:
            0, `LEFT_OUT`, `STOPPED` or 1: the run is done, left out, stopped or has failed.
        """
        try:
            code = self._commands(run)
        except (OSError, LookupError, TypeError, ValueError) as error:  # in a command's output; other runs continue
            print(f"{run.label}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            code = 1
        if code in (0, LEFT_OUT):
            return code
        if code == STOPPED or self.programs.stopped:
            return STOPPED
        print(f"error: {run.label} failed; its log is {run.log}", file=sys.stderr, flush=True)
        return 1

    def _commands(self, run: Run) -> int:
        if self.programs.stopped:
            return STOPPED
        done = read_results(self.results)
        if not missing([run], done):
            return 0
        if self.leave_out and (reason := self.leave_out(run, done)):
            print(f"{run.label}: left out: {reason}", flush=True)
            return LEFT_OUT
        print(f"{run.label}: log {run.log}", flush=True)
        commit = commit_of_code(self.results)

        def execute(command: list[str]) -> int:
            code = self.programs.run(command, run.place, run.log).code
            return 0 if code in FINISHED else code

        with self._preparing:  # the data that the runs of an experiment share
            code = execute(run.preparation())
        code = code or execute(run.command())
        for comparison in run.comparisons() if self.compares and not code else ():
            code = code or execute(comparison)
        if code:
            return code
        rows = list(scores(run, commit))
        keep_results(self.results, rows)
        shown = ", ".join(f"{row['set']} {row['score']}" for row in rows)
        expected = run.settings.get("expected")
        print(f"{run.label}: {shown}" + (f" (expected: {expected})" if expected else ""), flush=True)
        return 0
