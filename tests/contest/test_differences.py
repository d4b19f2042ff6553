"""Differences of methods: intervals by hand and by naive loops, and the sentences about them."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from espnet_diverse.contest.differences import Difference, compare, conclusion, seed_interval
from espnet_diverse.contest.runs import RecipeRun
from espnet_diverse.scoring.build import build_metrics

REFERENCES = [f"{'abcdefghij'[: 3 + n % 7]}" for n in range(40)]


def runs(folder: Path, methods=("old", "new"), seeds=(0, 1)):
    shared = {"config": "{}", "metric": "cer", "sets": ["test"], "baseline": methods[0]}
    source = ["--data_dir", "data"]
    return [
        RecipeRun("mine", shared, name, seed, {"fragments": name}, folder, source) for seed in seeds for name in methods
    ]


def decoded(folder, wrong):
    """Write references and hypotheses; `wrong` has the places of the errors by method and seed."""
    made = runs(folder)
    (folder / "data" / "test").mkdir(parents=True)
    (folder / "data" / "test" / "text").write_text("".join(f"u{n:02} {text}\n" for n, text in enumerate(REFERENCES)))
    rows = []
    for run in made:
        errors = wrong[run.name, run.seed]
        texts = [("x" if n in errors else text[0]) + text[1:] for n, text in enumerate(REFERENCES)]
        place = run.decoded(run.name, "test")
        place.mkdir(parents=True)
        (place / "text").write_text("".join(f"u{n:02} {text}\n" for n, text in enumerate(texts)))
        score = 100 * len(errors) / sum(map(len, REFERENCES))
        row = {"experiment": "mine", "run": run.name, "seed": str(run.seed), "set": "test", "metric": "cer"}
        rows.append({**row, "score": f"{score:.6f}"})
    return made, rows


WRONG = {
    ("old", 0): set(range(20)), ("old", 1): set(range(5, 28)),
    ("new", 0): set(range(0, 24, 3)), ("new", 1): set(range(0, 33, 3)),
}  # fmt: skip


def test_the_interval_over_seeds_matches_student():
    """The quantiles are from printed tables."""
    low, high = seed_interval([1.0, 2.0, 6.0])
    half = 4.302653 * math.sqrt(((1 - 3) ** 2 + (2 - 3) ** 2 + (6 - 3) ** 2) / 2) / math.sqrt(3)
    assert (low, high) == pytest.approx((3 - half, 3 + half), rel=1e-6)
    assert seed_interval([0.5, 1.5]) == pytest.approx((1 - 12.7062 / 2, 1 + 12.7062 / 2), rel=1e-5)
    assert seed_interval([1.0]) is None and seed_interval([]) is None


def test_a_method_is_compared_with_the_baseline_seed_by_seed_and_sentence_by_sentence(tmp_path):
    made, rows = decoded(tmp_path, WRONG)
    old, new = compare(made, rows, "test", build_metrics(["cer"])["cer"])
    assert (old.method, old.by_seed, old.over_seeds, old.over_sentences) == ("old", {}, None, None)
    total = sum(map(len, REFERENCES))
    assert new.by_seed == pytest.approx({0: 100 * (8 - 20) / total, 1: 100 * (11 - 23) / total}, abs=1e-5)
    assert new.mean == pytest.approx(-1200 / total, abs=1e-5)
    # The bootstrap by loops: the same sentences are drawn for all runs, the mean over seeds is taken in each draw.
    random, drawn = np.random.default_rng(12345), []
    for places in random.choice(40, size=(1000, 40), replace=True):
        units = sum(len(REFERENCES[n]) for n in places)
        rate = {key: 100 * sum(n in wrong for n in places) / units for key, wrong in WRONG.items()}
        drawn.append((rate["new", 0] + rate["new", 1] - rate["old", 0] - rate["old", 1]) / 2)
    ordered = sorted(drawn)
    assert new.over_sentences == pytest.approx((ordered[25], ordered[-26]), abs=1e-9)
    assert new.p_value < 0.05


def test_without_a_metric_there_is_no_interval_over_sentences(tmp_path):
    made, rows = decoded(tmp_path, WRONG)
    new = compare(made, rows, "test", None)[1]
    assert new.over_sentences is None and new.p_value is None and new.over_seeds is not None


def test_one_sentence_has_no_interval(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "REFERENCES", REFERENCES[:1])
    made, rows = decoded(tmp_path, dict.fromkeys(WRONG, ()))
    new = compare(made, rows, "test", build_metrics(["cer"])["cer"])[1]
    assert new.over_sentences is None and new.p_value is None


def test_a_seed_that_the_baseline_lacks_is_not_compared(tmp_path):
    made, rows = decoded(tmp_path, WRONG)
    rows = [row for row in rows if (row["run"], row["seed"]) != ("old", "1")]
    new = compare(made, rows, "test", build_metrics(["cer"])["cer"])[1]
    assert list(new.scores) == [0, 1] and list(new.by_seed) == [0] and new.over_seeds is None


def test_the_baseline_of_a_contest_stays_where_another_method_has_an_earlier_seed(tmp_path):
    made, rows = decoded(tmp_path, WRONG)
    late = [run for run in made if (run.name, run.seed) != ("old", 0)]
    differences = compare(late, [row for row in rows if (row["run"], row["seed"]) != ("old", "0")], "test", None)
    assert late[0].name == "new" and [each.method for each in differences] == ["old", "new"]
    assert not differences[0].by_seed and list(differences[1].by_seed) == [1] and differences[1].mean < 0


def test_scores_of_another_set_or_metric_are_not_taken(tmp_path):
    made, rows = decoded(tmp_path, WRONG)
    others = [{**row, "set": "dev", "score": "99"} for row in rows]
    others += [{**row, "metric": "wer", "score": "98"} for row in rows]
    assert compare(made, [*rows, *others], "test", None) == compare(made, rows, "test", None)


BASE = Difference("softmax", {0: 20.0, 1: 21.0})
TWO = {"scores": {0: 1.0, 1: 1.0}}
BETTER = Difference("sdma", **TWO, by_seed={0: 2.0, 1: 2.2}, over_seeds=(0.8, 3.4), over_sentences=(0.9, 3.6))
OPEN = Difference("sma", **TWO, by_seed={0: 0.1, 1: -0.3}, over_seeds=(-2.6, 2.4), over_sentences=(-0.5, 0.3))
TIGHT = Difference("window", **TWO, by_seed={0: 0.3, 1: 0.31}, over_seeds=(0.2, 0.4), over_sentences=(-1.0, 1.5))
ALONE = Difference("luna", {0: 1.0}, by_seed={0: 1.0})


@pytest.mark.parametrize(
    ("others", "metric", "said"),
    [
        ([BETTER], "bleu", "2 methods, 2 seeds, BLEU on test: sdma is better than softmax, by 0.8 to 3.6."),
        ([BETTER], "cer", "2 methods, 2 seeds, CER on test: sdma is worse than softmax, by 0.8 to 3.6."),
        (
            [OPEN, TIGHT],
            "bleu",
            "3 methods, 2 seeds, BLEU on test: no method is shown to differ from softmax: the true difference may "
            "lie between 2.4 better and 2.6 worse.",
        ),
        (
            [OPEN],
            "cer",
            "2 methods, 2 seeds, CER on test: no method is shown to differ from softmax: the true difference may "
            "lie between 2.6 better and 2.4 worse.",
        ),
        (
            [BETTER, OPEN, TIGHT],
            "bleu",
            "4 methods, 2 seeds, BLEU on test: sdma is better than softmax, by 0.8 to 3.6; sma and window are not "
            "shown to differ from softmax: the true difference may lie between 2.4 better and 2.6 worse.",
        ),
        (
            [Difference("luna", {0: 0.0, 1: 0.0}, {0: 0.0, 1: 0.0}, (0.0, 0.0), (0.0, 0.0), 1.0)],
            "bleu",
            "2 methods, 2 seeds, BLEU on test: all scores equal those of softmax, as scores of models that have "
            "learned nothing do.",
        ),
        (
            [ALONE],
            "cer",
            "2 methods, 1 seed, CER on test: nothing can be said of differences, as other seeds may give others; "
            "give two seeds or more.",
        ),
        (
            [Difference("luna", {1: 3.0})],
            "cer",
            "2 methods, 0 seeds, CER on test: no method has a seed together with softmax, so nothing can be compared "
            "yet.",
        ),
    ],
)
def test_the_conclusion_is_one_sentence(others, metric, said):
    assert conclusion([BASE, *others], metric, "test") == said


def test_a_method_with_one_seed_is_named_beside_others_with_more():
    said = conclusion([BASE, BETTER, ALONE], "bleu", "test")
    assert said.endswith("by 0.8 to 3.6; nothing can be said of luna, with fewer than two seeds.")


def test_infinite_scores_are_left_out(tmp_path):
    made = runs(tmp_path)
    names = list(dict.fromkeys(run.name for run in made))
    rows = [
        {"experiment": "mine", "run": run.name, "seed": str(run.seed), "set": "test", "metric": "cer", "score": "20.0"}
        for run in made
    ]
    rows[-1]["score"] = "inf"
    found = compare(made, rows, "test", None)
    assert [len(each.scores) for each in found] == [2, 1] and found[1].over_seeds is None
    assert [each.method for each in found] == names


@pytest.mark.parametrize(("metric", "scores"), [("cer", (93.1, 96.0)), ("bleu", (0.4, 0.9))])
def test_scores_of_models_that_have_not_learned_are_called_that(metric, scores):
    best = min(scores) if metric == "cer" else max(scores)
    base, other = Difference("softmax", dict.fromkeys((0, 1), scores[0])), dict.fromkeys((0, 1), scores[1])
    changes = dict.fromkeys((0, 1), scores[1] - scores[0])
    said = conclusion([base, Difference("sma", other, changes, (-3.0, 3.5))], metric, "test")
    assert said.endswith(
        f"The best score is {best}: no model has learned the task, and a larger budget may change the order."
    )
    learned = Difference("sma", {0: 40.0, 1: 40.0}, {0: 4.0, 1: 4.0}, (-3.0, 3.5))
    assert "no model has learned" not in conclusion([base, learned], metric, "test")
