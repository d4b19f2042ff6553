import pytest
import torch

from espnet_diverse.analysis.measures.ablation_metrics import DECODED, METRICS, build_metric
from espnet_diverse.analysis.sections import axis_label
from espnet_diverse.analysis.token_predictions import encode, predict_tokens
from espnet_diverse.bin.report import analyse
from espnet_diverse.scoring.error_rate import ErrorRate


def summed(metric, batches):
    return metric.score(sum(metric.counts(batch, metric.encode(batch)).sum(0) for batch in batches))


def test_loss_and_accuracy_are_means_over_tokens_of_all_batches(recognition):
    predictor, samples = recognition
    found = [predict_tokens(predictor, [one], encode(predictor, [one])) for one in samples]
    losses, correct = (torch.cat([each[field] for each in found]).double() for field in (0, 2))
    apart = [[one] for one in samples]
    assert summed(build_metric(predictor, "loss"), apart) == pytest.approx(losses.mean().item(), abs=1e-4)
    assert summed(build_metric(predictor, "accuracy"), apart) == pytest.approx(100 * correct.mean().item())


def test_encoder_output_may_be_used_again(recognition):
    predictor, samples = recognition
    metric = build_metric(predictor, "loss")
    encoded = metric.encode(samples)
    assert encoded is not None
    fresh = metric.counts(samples, None)
    for _ in range(2):
        assert metric.counts(samples, encoded) == pytest.approx(fresh, abs=1e-4)


def test_decoded_text_is_scored_as_by_the_command_score(recognition):
    predictor, samples = recognition
    metric = build_metric(predictor, "cer")
    assert metric.encode(samples) is None
    texts = [predictor.batch([one.source], [{}])[0][0].text for one in samples]
    counts = ErrorRate("char").statistics([one.text for one in samples], texts, [""] * 3)
    assert summed(metric, [[one] for one in samples]) == pytest.approx(float(ErrorRate("char").score(counts.sum(0))))


def test_an_utterance_without_hypothesis_has_an_empty_text(recognition, monkeypatch):
    predictor, samples = recognition
    monkeypatch.setattr(predictor, "batch", lambda sources, conditions: [[] for _ in sources])
    assert summed(build_metric(predictor, "cer"), [samples]) == 100


def test_names_match_the_command():
    assert (*analyse.TEACHER_FORCED, *analyse.DECODED) == METRICS and analyse.DECODED == DECODED
    assert [axis_label(metric).split(" (")[0] for metric in METRICS] == [
        "rise of loss",
        "fall of accuracy",
        "rise of CER",
        "rise of WER",
        "fall of BLEU",
        "fall of chrF",
    ]
