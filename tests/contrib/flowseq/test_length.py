"""The predictor of lengths: a distribution over differences, and its best lengths within limits."""

import pytest
import torch

from espnet_diverse.contrib.flowseq.length import LengthPredictor

FRAMES = torch.tensor([5, 3])


@pytest.fixture
def predictor():
    torch.manual_seed(0)
    return LengthPredictor(16, 3).double()


def log_prob(predictor, source, length):
    return predictor.log_prob(source, torch.full((2,), length))


def test_it_is_a_distribution_over_differences_of_the_mean_frame(predictor, source):
    rows = torch.stack([source.output[0].mean(0), source.output[1, :3].mean(0)])
    expected = predictor.output(rows).log_softmax(-1)
    for difference in range(-3, 4):
        found = predictor.log_prob(source, FRAMES + difference)
        torch.testing.assert_close(found, expected[:, difference + 3])


def test_greater_differences_count_as_the_greatest(predictor, source):
    torch.testing.assert_close(predictor.log_prob(source, FRAMES + 9), predictor.log_prob(source, FRAMES + 3))
    torch.testing.assert_close(predictor.log_prob(source, FRAMES - 9), predictor.log_prob(source, FRAMES - 3))


def test_the_best_lengths_are_within_the_limits_and_have_a_token(predictor, source):
    least, greatest = torch.tensor([4, 0]), torch.tensor([7, 2])
    lengths, values = predictor.best(source, 9, least, greatest)
    assert lengths.shape == values.shape == (2, 7)
    for row, possible in enumerate([{4, 5, 6, 7}, {1, 2}]):
        kept = values[row] > -torch.inf
        assert set(lengths[row][kept].tolist()) == possible
        assert (lengths[row][~kept] == 1).all()
        assert (values[row].diff()[: len(possible) - 1] <= 0).all()
        for length, value in zip(lengths[row][kept].tolist(), values[row][kept], strict=True):
            torch.testing.assert_close(value, log_prob(predictor, source, length)[row])
    assert torch.equal(predictor.best(source, 1, least, greatest)[0], lengths[:, :1])
