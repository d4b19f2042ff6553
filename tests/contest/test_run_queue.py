"""The order of runs, and those that are left out; tests/recipes/test_reproduce.py has stops, failures and results."""

import json
import threading
from collections.abc import Mapping
from types import MappingProxyType

from espnet_diverse.contest.programs import STOPPED, Ended, Programs
from espnet_diverse.contest.run_queue import Walk
from espnet_diverse.contest.runs import RecipeRun
from espnet_diverse.contest.scores import read_results

SHARED = {"config": "{}", "metric": "cer", "sets": ["test"], "baseline": "old"}


class Trainings(Programs):
    """Programs that write a score, one of them after the next seed or a while, and tell when each began and ended."""

    def __init__(self, slow: str = "", codes: Mapping[str, int] = MappingProxyType({}), seconds: float = 0.3):
        super().__init__()
        self.seconds, self.next_seed = seconds, threading.Event()
        self.slow, self.codes, self.events, self.guard = slow, codes, [], threading.Lock()

    def run(self, command, folder, log):
        tag = command[command.index("--tag") + 1]
        if "--stop_stage" in command:
            self.note("begins", tag)
            if tag.endswith("seed1"):
                self.next_seed.set()
            return Ended(0)
        if "--stage" in command:
            self.note("compares", tag, command[-1].strip())
            return Ended(0)
        if code := self.codes.get(tag):
            self.stopped = code == STOPPED
            return Ended(code)
        if tag == self.slow:
            self.next_seed.wait(self.seconds)
        place = folder / "exp" / tag / "decode" / "test"
        place.mkdir(parents=True)
        score = {"metrics": {"cer": {"overall": {"score": 10}}}}
        (place / "score.json").write_text(json.dumps(score))
        (place / "text").touch()
        self.note("ends", tag)
        return Ended(0)

    def note(self, *event):
        with self.guard:
            self.events.append(event)


def runs(folder):
    return [
        RecipeRun("mine", SHARED, name, seed, {"fragments": name}, folder) for seed in (0, 1) for name in ("old", "new")
    ]


def test_a_method_that_is_left_out_is_no_failure_and_is_judged_by_all_scores_of_the_seed_before(tmp_path, capsys):
    programs, results = Trainings(slow="mine_new_seed0"), tmp_path / "contest.tsv"

    def leave_out(run, done):
        seen = {(row["run"], row["seed"]) for row in done}
        assert run.seed == 0 or seen >= {("old", "0"), ("new", "0")}
        return "too bad" if (run.name, run.seed) == ("new", 1) else None

    assert Walk(runs(tmp_path), results, programs, jobs=2, leave_out=leave_out).work() == 0
    assert [(row["run"], row["seed"]) for row in read_results(results)] == [("old", "0"), ("new", "0"), ("old", "1")]
    said = capsys.readouterr().out
    assert "mine/new/1: left out: too bad" in said and said.endswith("3 runs done, 1 left out, 0 left\n")
    assert Walk(runs(tmp_path), results, programs, jobs=2, leave_out=leave_out).work() == 0
    assert len(programs.events) == 6  # nothing was made again


def test_without_a_judge_a_free_job_begins_with_the_next_seed(tmp_path):
    programs = Trainings(slow="mine_new_seed0", seconds=30)
    assert Walk(runs(tmp_path), tmp_path / "contest.tsv", programs, jobs=2).work() == 0
    assert programs.events.index(("begins", "mine_old_seed1")) < programs.events.index(("ends", "mine_new_seed0"))


def test_runs_that_fail_or_leave_no_scores_are_named_and_the_others_continue(tmp_path, capsys):
    programs, results, made = Trainings(codes={"mine_old_seed0": 1}), tmp_path / "contest.tsv", runs(tmp_path)
    broken = RecipeRun("mine", {**SHARED, "metric": "wer"}, "new", 0, {"fragments": "new"}, tmp_path)
    assert Walk([made[0], broken, *made[2:]], results, programs).work() == 1
    printed, said = capsys.readouterr()
    assert said.splitlines() == [
        f"error: mine/old/0 failed; its log is {made[0].log}",
        "mine/new/0: KeyError: 'wer'",
        f"error: mine/new/0 failed; its log is {broken.log}",
    ]
    assert printed.endswith("2 runs done, 2 left\n") and {row["seed"] for row in read_results(results)} == {"1"}


def test_after_a_stop_no_other_run_begins(tmp_path, capsys):
    programs = Trainings(codes={"mine_new_seed0": STOPPED})
    assert Walk(runs(tmp_path), tmp_path / "contest.tsv", programs).work() == STOPPED
    assert [event for event in programs.events if event[1].endswith("seed1")] == []
    printed, said = capsys.readouterr()
    assert printed.endswith("1 runs done, 3 left; the same command continues from there\n") and said == ""


def test_a_run_is_scored_once_more_against_the_baseline_of_its_seed(tmp_path):
    programs = Trainings()
    assert Walk(runs(tmp_path), tmp_path / "contest.tsv", programs, compares=True).work() == 0
    assert [event for event in programs.events if event[0] == "compares"] == [
        ("compares", f"mine_new_seed{seed}", f"--baseline exp/mine_old_seed{seed}/decode/test/text") for seed in (0, 1)
    ]
