"""The bootstrap: equal to sacrebleu's with its seed, and right where the answer is known."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from espnet_diverse.scoring import significance
from espnet_diverse.scoring.bleu import bleu, chrf, ter
from espnet_diverse.scoring.significance import Bootstrap, interval, p_value


def mean(sums):
    """Score of the counts (value, 1): their mean."""
    return sums[..., 0] / sums[..., 1]


def with_ones(values):
    return np.stack([values, np.ones(len(values))], axis=1)


def test_p_values_and_intervals_match_sacrebleu(translations):
    references, system, baseline = translations
    theirs = PairedTest(
        [("baseline", baseline), ("system", system)],
        {"BLEU": BLEU(), "chrF2": CHRF(), "TER": TER()},
        [references],
        test_type="bs",
        n_samples=500,
    )()[1]
    bootstrap = Bootstrap(500)
    for metric in (bleu(), chrf(), ter()):
        sides = [metric.statistics(references, texts, [""] * 60) for texts in (system, baseline)]
        ours = [bootstrap.scores(side, metric.score) for side in sides]
        difference = metric.score(sides[0].sum(0)) - metric.score(sides[1].sum(0))
        expected_baseline, expected = theirs[metric.name]
        assert p_value(*ours, difference) == pytest.approx(expected.p_value, abs=1e-12)
        for scores, result in zip(ours, (expected, expected_baseline), strict=True):
            low, high = interval(scores)
            assert ((high - low) / 2, scores.mean()) == pytest.approx((result.ci, result.mean), rel=1e-5)


def test_resamples_equal_a_loop_and_do_not_depend_on_the_block(monkeypatch):
    values = np.random.default_rng(0).normal(size=37)
    random = np.random.default_rng(5)
    expected = [values[random.choice(37, size=37, replace=True)].mean() for _ in range(128)]
    bootstrap = Bootstrap(128, seed=5)
    assert bootstrap.scores(with_ones(values), mean) == pytest.approx(expected, abs=1e-12)
    monkeypatch.setattr(significance, "_CELLS", 5 * 37)
    assert bootstrap.scores(with_ones(values), mean) == pytest.approx(expected, abs=1e-12)


def test_the_interval_of_a_mean_matches_the_normal_distribution():
    wrong = np.arange(400) < 120
    low, high = interval(Bootstrap(4000).scores(with_ones(wrong), mean))
    half = 1.96 * np.sqrt(0.3 * 0.7 / 400)
    assert (low, high) == pytest.approx((0.3 - half, 0.3 + half), abs=0.004)


def test_interval_takes_the_values_that_leave_a_fortieth_outside():
    assert interval(np.random.default_rng(1).permutation(1000)) == (25.0, 974.0)


def test_p_values_where_the_answer_is_known():
    random = np.random.default_rng(2)
    baseline = random.random(300)
    noise = random.normal(size=300)
    bootstrap = Bootstrap()

    def p_of(system):
        scores = [bootstrap.scores(with_ones(values), mean) for values in (system, baseline)]
        return p_value(*scores, system.mean() - baseline.mean())

    assert p_of(baseline) == 1
    assert p_of(baseline[::-1]) > 0.3
    assert p_of(baseline + 0.5 + 0.1 * noise) == pytest.approx(1 / 1001)
    assert p_of(baseline - 0.5 + 0.1 * noise) == pytest.approx(1 / 1001)


def test_shuffled_parts_are_independent_and_systems_stay_paired():
    bootstrap = Bootstrap(2000)
    scores = bootstrap.scores(with_ones(np.random.default_rng(3).normal(size=50)), mean)
    first, second = (bootstrap.shuffled([scores, 2 * scores], position) for position in (0, 1))
    assert abs(np.corrcoef(first[0], second[0])[0, 1]) < 0.08
    assert (first[1] == 2 * first[0]).all()
    assert (np.sort(first[0]) == np.sort(scores)).all()
    assert (first == bootstrap.shuffled([scores, 2 * scores], 0)).all()


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_there_is_no_p_value_with_a_score_that_is_not_finite(odd):
    scores = np.random.default_rng(0).normal(size=100)
    other = np.where(np.arange(100) == 3, odd, scores + 0.1)
    assert np.isnan(p_value(other, scores, 0.1)) and np.isnan(p_value(scores + 0.1, scores, odd))
