import pytest
import torch

from espnet_diverse.analysis.measures.calibration import HEADER, Calibration, arrays, calibrate, rows
from espnet_diverse.analysis.token_predictions import TokenPredictions


def measured(confidence, correct, entropy=None):
    """Calibration of tokens with these confidences."""
    confidence = torch.tensor(confidence, dtype=torch.float64)
    entropy = torch.zeros_like(confidence) if entropy is None else torch.tensor(entropy, dtype=torch.float64)
    return Calibration(2, TokenPredictions(-confidence.log(), confidence, torch.tensor(correct), entropy))


def test_the_table_has_the_numbers_of_each_data_directory():
    sure = measured([0.9, 0.9, 0.9, 0.9], [True, True, True, False], [0.0, 1.0, 2.0, 3.0])
    assert sure.summary() == pytest.approx(
        {
            "utterances": 2,
            "tokens": 4,
            "accuracy": 0.75,
            "confidence": 0.9,
            "ece": 0.15,
            "oe": 0.9 * 0.15,
            "entropy": 1.5,
        }
    )
    assert rows({"in domain": sure}) == [
        ("in domain", "2", "4", "0.750", "0.900", "0.150", "0.135", "1.500"),
    ]
    assert len(HEADER) == 8


def test_arrays_hold_bins_and_tokens():
    found = arrays({"out of domain": measured([0.2, 0.95, 1.0], [False, True, True])})
    assert found["calibration_out_of_domain_bin_size"].tolist() == [0, 0, 1, *[0] * 11, 2]
    assert found["calibration_out_of_domain_bin_accuracy"][[2, -1]].tolist() == [0, 1]
    assert found["calibration_out_of_domain_bin_confidence"][-1] == pytest.approx(0.975)
    assert found["calibration_out_of_domain_correct"].tolist() == [False, True, True]
    assert found["calibration_out_of_domain_confidence"].tolist() == [0.2, 0.95, 1.0]


@pytest.mark.parametrize("run", ["recognition", "translated"])
def test_every_token_counts_whatever_the_batches(run, request):
    predictor, samples = request.getfixturevalue(run)
    together = calibrate(predictor, samples)
    assert together.utterances == len(samples)
    assert len(together.predictions.loss) == sum(len(one.tokens) + 1 for one in samples)
    predictor.batch_size = 1
    assert calibrate(predictor, samples).summary() == pytest.approx(together.summary(), abs=1e-4)
    assert together.predictions.confidence.dtype == torch.float64
