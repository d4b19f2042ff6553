"""The interface of a metric: what holds for all of them."""

import json

import numpy as np
import pytest

from espnet_diverse.scoring.build import METRICS, build_metrics
from espnet_diverse.scoring.metric import Metric, shown_name
from espnet_diverse.scoring.significance import Bootstrap

PLAIN = [name for name in METRICS if name != "bertscore"]  # which needs an encoder


@pytest.fixture(scope="module")
def texts(translations):
    references, hypotheses, _ = translations
    return references[:12], hypotheses[:12], [""] * 12


@pytest.fixture(params=PLAIN)
def metric(request):
    return build_metrics([request.param])[request.param]


def test_names_of_metrics_are_abbreviations_or_words():
    names = {"cer": "CER", "chrf": "CHRF", "accuracy": "accuracy", "word_perplexity": "word perplexity"}
    assert {metric: shown_name(metric) for metric in names} == names


def test_a_corpus_is_the_sum_of_its_sentences(metric, texts):
    counts = metric.statistics(*texts)
    assert counts.dtype == np.float64 and counts.shape[0] == 12
    halves = [metric.statistics(*(column[part] for column in texts)) for part in (slice(0, 5), slice(5, 12))]
    np.testing.assert_array_equal(np.concatenate(halves), counts)


def test_scores_of_many_sums_match_each(metric, texts):
    counts = metric.statistics(*texts)
    sums = np.stack([counts[:6].sum(0), counts.sum(0), counts[6:].sum(0)]).reshape(3, 1, -1)
    scores = metric.score(sums)
    assert scores.shape == (3, 1)
    assert scores[:, 0].tolist() == pytest.approx([float(metric.score(one)) for one in sums[:, 0]])


def test_reference_units_do_not_depend_on_the_hypotheses(metric, texts):
    references, _, languages = texts
    units = metric.reference_units(metric.statistics(*texts))
    assert units.shape == (12,) and (units > 0).all()
    np.testing.assert_array_equal(units, metric.reference_units(metric.statistics(references, references, languages)))


def test_a_row_fits_its_heading_and_numbers_fit_json(metric, texts):
    sums = metric.statistics(*texts).sum(0)
    cells = metric.cells(12, sums)
    assert len(cells) == len(metric.columns) and metric.score_column in metric.columns
    shown = float(cells[metric.columns.index(metric.score_column)])
    assert shown == pytest.approx(float(metric.score(sums)), abs=0.06)
    assert json.loads(json.dumps(metric.details(sums))) == metric.details(sums)
    assert metric.signature(["en"], Bootstrap(100, 1)) != metric.signature(["en"], Bootstrap(100, 2))


def test_a_metric_without_its_methods_cannot_be_made():
    class Half(Metric):
        def score(self, sums):
            return sums

    with pytest.raises(TypeError, match="abstract methods? .*cells.*signature.*statistics"):
        Half()
