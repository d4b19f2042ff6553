"""Scores of parts and averages with intervals, beside a baseline."""

import json

import numpy as np
import pytest

from espnet_diverse.scoring.bleu import bleu
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.evaluate import evaluate, to_dict
from espnet_diverse.scoring.significance import Bootstrap, interval
from espnet_diverse.scoring.texts import Corpus, System

BOOTSTRAP = Bootstrap(400, seed=1)


def corpus_of(references, *systems):
    named = [System(f"s{number}", tuple(texts)) for number, texts in enumerate(systems)]
    return Corpus({f"u{number}": text for number, text in enumerate(references)}, *named)


@pytest.fixture(scope="module")
def corpus(translations):
    return corpus_of(*translations)


@pytest.fixture(scope="module")
def rows(corpus):
    parts = {"": range(60), "x": range(0, 20), "y": range(20, 60)}
    return evaluate(bleu(), corpus, parts, {"AVG": ["x", "y"], "one": ["y"]}, BOOTSTRAP)


def test_a_part_is_scored_as_if_it_were_all(corpus, translations, rows):
    alone = evaluate(bleu(), corpus_of(*(texts[20:] for texts in translations)), {"": range(40)}, {}, BOOTSTRAP)
    assert rows["y"] == alone[""]
    assert rows["y"].sentences == 40
    assert list(rows) == ["", "x", "y", "AVG", "one"]


def test_an_average_weighs_its_rows_alike(rows):
    average = rows["AVG"]
    assert average.score == pytest.approx((rows["x"].score + rows["y"].score) / 2)
    baselines = [rows[name].baseline for name in ("AVG", "x", "y")]
    assert baselines[0].score == pytest.approx((baselines[1].score + baselines[2].score) / 2)
    assert baselines[0].difference == pytest.approx(average.score - baselines[0].score)
    assert average.mean_of == ("x", "y") and average.sentences is None
    assert average.interval[0] < average.score < average.interval[1]


def test_the_average_of_one_row_is_that_row(rows):
    assert rows["one"].score == rows["y"].score
    assert rows["one"].interval == rows["y"].interval
    assert rows["one"].baseline == rows["y"].baseline


def test_the_interval_of_an_average_matches_independent_parts():
    # Two parts with the same texts: resampled independently, their mean varies by 1 / sqrt(2) of each.
    references = ["a"] * 400
    found = ["a" if number % 200 < 140 else "b" for number in range(400)]
    parts = {"x": range(200), "y": range(200, 400)}
    rows = evaluate(ErrorRate("char"), corpus_of(references, found), parts, {"AVG": ["x", "y"]}, Bootstrap(4000))
    width = {name: np.subtract(*row.interval[::-1]) for name, row in rows.items()}
    assert width["AVG"] / width["x"] == pytest.approx(np.sqrt(0.5), abs=0.06)


def test_error_rates_meet_the_same_test():
    references = ["abcd"] * 100
    system = ["abcd" if number % 4 else "abxd" for number in range(100)]
    baseline = ["abcd" if number % 2 else "abxd" for number in range(100)]
    row = evaluate(ErrorRate("char"), corpus_of(references, system, baseline), {"": range(100)}, {}, Bootstrap())[""]
    assert (row.score, row.baseline.score, row.baseline.difference) == (6.25, 12.5, -6.25)
    assert row.baseline.p_value == pytest.approx(1 / 1001)
    same = evaluate(ErrorRate("char"), corpus_of(references, system, system), {"": range(100)}, {}, Bootstrap())[""]
    assert same.baseline.p_value == 1
    # A character is wrong in 25 of 100 sentences of 4: the rate of a resample is Binomial(100, 1/4) / 4 percent.
    draws = np.random.default_rng(12345).choice(100, size=(1000, 100), replace=True)
    expected = interval(np.array([(row % 4 == 0).sum() / 4 for row in draws]))
    assert row.interval == expected


def test_one_sentence_is_not_tested():
    corpus = corpus_of(["ab", "cd", "ef"], ["ab", "cx", "ef"], ["xy", "cd", "ef"])
    rows = evaluate(ErrorRate("char"), corpus, {"x": [0], "y": [1, 2]}, {"AVG": ["x", "y"]}, BOOTSTRAP)
    assert (rows["x"].baseline.difference, rows["x"].baseline.p_value) == (-100, None)
    assert rows["y"].baseline.p_value is not None
    assert rows["AVG"].baseline.p_value is None


@pytest.mark.parametrize("metric", [ErrorRate("word"), bleu()])
def test_a_part_without_any_reference_unit_has_no_row_and_counts_in_no_average(metric):
    corpus = corpus_of(["", "x", ""], ["a", "x", ""])
    parts = {"": range(3), "de": [1], "zh": [0, 2]}
    rows = evaluate(metric, corpus, parts, {"AVG": ["de", "zh"], "Low": ["zh"]}, BOOTSTRAP)
    assert list(rows) == ["", "de", "AVG"] and rows["AVG"].mean_of == ("de",)
    assert rows["AVG"].score == rows["de"].score


def test_to_dict_goes_through_json(rows):
    part, average = (json.loads(json.dumps(to_dict(rows[name]))) for name in ("x", "AVG"))
    assert list(part) == ["signature", "score", "interval", "sentences", "counts", "baseline"]
    assert list(average) == ["signature", "score", "interval", "mean_of", "baseline"]
    assert list(average["baseline"]) == ["score", "interval", "difference", "p_value"]
    for found, row in ((part, rows["x"]), (average, rows["AVG"])):
        assert found["score"] == row.score and found["interval"] == list(row.interval)
        baseline = row.baseline
        assert [*found["baseline"].values()] == [
            *(baseline.score, [*baseline.interval], baseline.difference, baseline.p_value)
        ]
    assert part["sentences"] == 20 and part["counts"] == rows["x"].details["counts"]
    assert average["mean_of"] == ["x", "y"]
