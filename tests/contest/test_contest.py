"""A contest as a whole: its stages, stops, and methods that are left out; tests/bin/train/test_contest.py has commands.

The programs train nothing: they leave a copy of a run, with a score.
"""

import dataclasses
import json
import shutil
import signal
from pathlib import Path

import pytest
import yaml

from espnet_diverse.contest import contest as module
from espnet_diverse.contest.contest import behind, carry_out
from espnet_diverse.contest.options import Budget, Conduct
from espnet_diverse.contest.programs import INTERRUPTED, STOPPED, Ended, Programs
from espnet_diverse.contest.runs import RecipeRun
from espnet_diverse.contest.scores import read_results
from espnet_diverse.contest.settings import Contest, methods

SHARED = {
    **{"config": "base.yaml", "metric": "word_perplexity", "sets": ["dev", "test"], "task": "lm", "tokens_dir": None},
    **{"token_type": "char", "vocab_size": None, "train": "train", "valid": "dev", "average_number": 3, "nj": 1},
    **{"ngpu": 0, "cluster": ""},
}
SCORES = {("old", "dev"): 20.0, ("new", "dev"): 30.0, ("old", "test"): 40.0, ("new", "test"): float("inf")}
TIMELESS = Conduct(timing=0)


class Trainings(Programs):
    """Programs that leave a copy of a run and the `SCORES` of its method."""

    trained: Path

    def run(self, command, folder, log):
        name = Path(command[command.index("plan") + 1]).stem
        if not name.endswith(".prepare"):
            shutil.copytree(self.trained, run := log.with_name(name))
            for data_set in SHARED["sets"]:
                (run / "decode" / data_set).mkdir(parents=True)
                found = {"word_perplexity": SCORES[name.partition("_")[0], data_set]}
                (run / "decode" / data_set / "perplexity.json").write_text(json.dumps(found))
        return Ended(0)


@pytest.fixture
def contest(tiny_run, tmp_path, monkeypatch):
    """A contest of two methods and two seeds in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Trainings, "trained", tiny_run.model_dir, raising=False)
    monkeypatch.setattr(module, "Programs", Trainings)
    Path("base.yaml").write_text(yaml.safe_dump({"max_epoch": 4}))
    for name in ("old", "new"):
        Path(f"{name}.yaml").write_text("{}")
    given = methods(["old.yaml", "new.yaml"], None, ())
    return Contest(Path("out/mine"), given, [0, 1], SHARED, Budget(), data_dir=Path("data"))


def test_a_method_that_is_far_behind_gets_no_further_seeds_and_the_report_says_so(contest, capsys):
    Path("base.yaml").write_text("{max_epoch: 4, num_iters_per_epoch: 2}")
    Path("new.yaml").write_text("model_conf: {consistency: {r_drop: 1}}")
    assert carry_out(contest, dataclasses.replace(TIMELESS, drop_behind=5.0), None) == 0
    done = [(row["run"], row["seed"], row["set"], row["score"]) for row in read_results(contest.results)]
    assert done == [
        *(("old", "0", "dev", "20.00"), ("old", "0", "test", "40.00")),
        *(("new", "0", "dev", "30.00"), ("new", "0", "test", "inf")),
        *(("old", "1", "dev", "20.00"), ("old", "1", "test", "40.00")),
    ]
    assert "3 runs done, 1 left out, 0 left\n" in capsys.readouterr().out
    report = Path("out/mine/contest.md").read_text("utf-8")
    for said in (
        "Without scores so far: new with seed 1.",
        "Without a finite score on a set, and left out there: new with seed 0.",
        "new got no further seeds: 10.0 points behind old on dev with 1 seed, and 5 were allowed.",
    ):
        assert f"\n{said}\n" in report
    assert "same budget: the epochs of the configuration; half of the updates for new, with two passes" in report
    headings = [line[3:] for line in report.splitlines() if line.startswith("## ")]
    assert headings == ["Differences", "Learning curves", "Settings"]  # no costs, and language models are not analysed


def test_a_stop_while_training_leaves_the_report_for_another_call(contest, monkeypatch, capsys):
    monkeypatch.setattr(Trainings, "run", lambda self, *_: self.stop() or Ended(STOPPED))
    assert carry_out(contest, TIMELESS, None) == STOPPED
    assert capsys.readouterr().out.endswith("0 runs done, 4 left; the same command continues from there\n")
    assert not Path("out/mine/contest.md").exists()


@pytest.mark.parametrize(("interrupted", "code"), [(False, STOPPED), (True, INTERRUPTED)])
def test_a_stop_while_timing_trains_nothing(contest, monkeypatch, capsys, interrupted, code):
    def stopped(self, *_):
        self.stopped, self.interrupted = True, interrupted
        return Ended(STOPPED)

    monkeypatch.setattr(Trainings, "run", stopped)
    assert carry_out(contest, Conduct(), None) == code
    assert capsys.readouterr().out == "4 runs, 0 of them done\nold: timing 20 batches\n"


def test_an_epoch_of_a_trial_has_an_update(contest, monkeypatch, capsys):
    Path("base.yaml").write_text(yaml.safe_dump({"max_epoch": 4, "accum_grad": 16}))
    monkeypatch.setattr(Trainings, "run", lambda self, *_: self.stop() or Ended(STOPPED))
    assert carry_out(contest, Conduct(), None) == STOPPED
    assert capsys.readouterr().out.endswith("old: timing 32 batches\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, STOPPED), (signal.SIGINT, INTERRUPTED)])
@pytest.mark.parametrize("failed", [0, 1])
def test_a_stop_while_heads_are_analysed_wins_over_failed_runs(contest, monkeypatch, number, code, failed):
    monkeypatch.setattr(module, "_train", lambda *_: failed)
    monkeypatch.setattr(module, "_analysed", lambda *given: given[-1].stop(number) or [])
    assert carry_out(contest, TIMELESS, None) == code


def row(run, seed, score, data_set="dev"):
    return {"run": run, "seed": str(seed), "set": data_set, "score": str(score)}


@pytest.mark.parametrize(
    ("metric", "scores", "reason"),
    [
        ("bleu", {"old": [20, 21], "new": [18, 18]}, "2.5 points behind old on dev with 2 seeds, and 2 were allowed"),
        ("bleu", {"old": [20, 21], "new": [18, 19]}, None),
        ("cer", {"old": [20], "new": [17]}, None),
        ("cer", {"old": [20], "new": [23]}, "3.0 points behind old on dev with 1 seed, and 2 were allowed"),
        ("cer", {"old": [], "new": [23]}, None),
    ],
)
def test_a_method_is_left_out_only_where_it_is_behind_on_the_seeds_before(metric, scores, reason):
    shared = {"config": "{}", "metric": metric, "sets": ["dev", "test"], "baseline": "old"}
    runs = [RecipeRun("mine", shared, "old", 0, {"fragments": "x"}, Path())]
    done = [row(name, seed, each) for name, found in scores.items() for seed, each in enumerate(found)]
    done += [row("new", 7, 99 if metric == "cer" else 0), row("old", 7, 20), row("new", 0, 50, "test")]
    assert behind(runs, done, "new", 5, 2) == reason
    assert behind(runs, done, "new", 5, None) is None and behind(runs, done, "old", 5, 2) is None
