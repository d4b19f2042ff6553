"""The contest itself: costs first, then the runs, then the analysis of heads, then the report."""

import math
import statistics
from collections.abc import Mapping, Sequence

from espnet_diverse.contest import costs, redundant_heads
from espnet_diverse.contest.costs import Cost
from espnet_diverse.contest.options import Conduct
from espnet_diverse.contest.programs import Programs
from espnet_diverse.contest.report import NAME, write_report
from espnet_diverse.contest.run_queue import Walk
from espnet_diverse.contest.runs import Run
from espnet_diverse.contest.scores import missing, read_results
from espnet_diverse.contest.settings import Contest
from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.progress import timespan
from espnet_diverse.scoring.metric import Metric, lower_is_better


def carry_out(contest: Contest, conduct: Conduct, metric: Metric | None, only: str = "") -> int:
    """Carry out a contest, or continue one; return the exit code.

    Args:
        contest: The contest.
        conduct: How it is carried out.
        metric: The metric, for the bootstrap over sentences; None leaves that out.
        only: "times" to time the methods and estimate how long it will take, "report" to report on the finished runs.

    Returns:
        0 when all is done, 75 as long as another call can continue (130 after SIGINT), and 1 when all runs that are
            left have failed.

    Raises:
        UserError: The settings are wrong or differ from those at the start of the contest, a trial failed, or another
            process carries out the same contest.
    """
    runs = contest.runs()
    with folder_lock(contest.output_dir):
        contest.keep()
        if only == "report":
            return _report(contest, runs, metric, _dropped(contest, conduct, runs))
        programs = Programs()
        with programs.stopping(conduct.minutes):
            code = _time(contest, conduct, runs, programs)
            if code or only == "times":
                return code
            code = _train(contest, conduct, runs, programs)
            notes = _analysed(contest, conduct, runs, programs)
        if programs.stopped:
            return programs.exit_code
        return _report(contest, runs, metric, [*notes, *_dropped(contest, conduct, runs)]) or code


def _time(contest: Contest, conduct: Conduct, runs: Sequence[Run], programs: Programs) -> int:
    """Time the methods that have no costs yet, and print how long the unfinished runs will take."""
    waiting = missing(runs, read_results(contest.results))
    print(f"{len(runs)} runs, {len(runs) - len(waiting)} of them done", flush=True)
    if not (conduct.timing and waiting):
        return 0
    firsts = list({run.name: run for run in reversed(runs)}.values())[::-1]
    accum_grad = next(iter(contest.merged().values())).get("accum_grad") or 1  # of all methods
    batches = max(conduct.timing, accum_grad)  # so that an epoch has an update
    known = costs.measure(firsts, programs, contest.output_dir / "costs.json", batches)
    if known is None:
        return programs.exit_code
    print(estimate(contest, waiting, known, conduct.jobs), flush=True)
    return 0


def estimate(contest: Contest, waiting: Sequence[Run], known: Mapping[str, Cost], jobs: int) -> str:
    """Estimate how long training the remaining runs will take, as a sentence.

    Args:
        contest: The contest.
        waiting: The remaining runs.
        known: Cost of each method.
        jobs: Number of runs at the same time.
    """
    seconds = {}
    for name, config in contest.merged().items():
        budget = dict(change.split("=", 1) for change in contest.budget.changes(config))
        batches = budget.get("num_iters_per_epoch") or config.get("num_iters_per_epoch")
        seconds[name] = known[name].seconds(int(budget["max_epoch"]), int(batches) if batches else None)
    total = sum(seconds[run.name] for run in waiting)
    longest = max(seconds[run.name] for run in waiting)
    lasting = max(total / min(jobs, len(waiting)), longest)
    shown = ", ".join(f"{name} {timespan(seconds[name])}" for name in dict.fromkeys(run.name for run in waiting))
    beside = f" at {jobs} at a time, if each is as fast as alone" if jobs > 1 else ""
    return (
        f"training takes about {timespan(lasting)} for {len(waiting)} runs{beside} ({shown}); decoding and scoring "
        "come on top"
    )


def _train(contest: Contest, conduct: Conduct, runs: Sequence[Run], programs: Programs) -> int:
    def leave_out(run: Run, done: Sequence[Mapping[str, str]]) -> str | None:
        return behind(runs, done, run.name, run.seed, conduct.drop_behind)

    judge = leave_out if conduct.drop_behind is not None else None
    return Walk(runs, contest.results, programs, conduct.jobs, judge).work()


def behind(
    runs: Sequence[Run], done: Sequence[Mapping[str, str]], name: str, seed: int, points: float | None
) -> str | None:
    """The reason why a method gets no further seeds, or None.

    Args:
        runs: The runs of the contest.
        done: Scores so far.
        name: Name of the method.
        seed: The next seed; only scores of smaller ones are judged.
        points: Points behind the baseline above which it is left out; None for never.
    """
    first = runs[0]
    baseline, data_set = first.shared["baseline"], first.sets[0]
    scored = {
        method: {
            int(row["seed"]): float(row["score"]) for row in done if (row["run"], row["set"]) == (method, data_set)
        }
        for method in (baseline, name)
    }
    seeds = [other_seed for other_seed in scored[name] if other_seed < seed and other_seed in scored[baseline]]
    if points is None or name == baseline or not seeds:
        return None
    lost = statistics.mean(scored[baseline][other_seed] - scored[name][other_seed] for other_seed in seeds)
    lost = -lost if lower_is_better(first.metric) else lost
    if math.isnan(lost) or lost <= points:
        return None
    counted = f"{len(seeds)} seed{'s' * (len(seeds) > 1)}"
    return f"{lost:.1f} points behind {baseline} on {data_set} with {counted}, and {points:g} were allowed"


def _dropped(contest: Contest, conduct: Conduct, runs: Sequence[Run]) -> list[str]:
    """Notes on the runs that were left out because their method was behind."""
    done = read_results(contest.results)
    reasons: dict[str, str] = {}
    for run in missing(runs, done):
        if reason := behind(runs, done, run.name, run.seed, conduct.drop_behind):
            reasons.setdefault(run.name, f"{run.name} got no further seeds: {reason}.")
    return list(reasons.values())


def _analysed(contest: Contest, conduct: Conduct, runs: Sequence[Run], programs: Programs) -> list[str]:
    """Analyse the heads of the first finished run of each method; return a note if that failed."""
    if contest.shared["task"] in ("lm", "cls"):  # `analyse` is for encoders and decoders
        return []
    waiting = missing(runs, read_results(contest.results))
    firsts = {run.name: run for run in reversed(runs) if run not in waiting}
    if not (conduct.utterances and firsts) or programs.stopped:
        return []
    device = "cuda" if contest.shared["ngpu"] else "cpu"
    failed = redundant_heads.analyse(list(firsts.values())[::-1], programs, conduct.utterances, device)
    return [f"The heads of {' '.join(failed)} could not be analysed; the log of the run says why."] if failed else []


def _report(contest: Contest, runs: Sequence[Run], metric: Metric | None, notes: Sequence[str]) -> int:
    results = read_results(contest.results)
    if len(missing(runs, results)) == len(runs):
        print("no run is done, so there is nothing to report", flush=True)
        return 1
    for message in write_report(contest, runs, results, metric, notes):
        print(message, flush=True)
    print(contest.output_dir / f"{NAME}.html", flush=True)
    return 0
