"""Losses of utterances are those of training."""

from functools import partial

import numpy as np
import pytest
import torch

from espnet_diverse.analysis.samples import read_samples, read_speech
from espnet_diverse.analysis.teacher_forcing import load, target_vocabulary
from espnet_diverse.analysis.windows.losses import losses
from espnet_diverse.data.kaldi import read_data_dir


@pytest.fixture
def read(conformer, dev_dir):
    model, rate = load(conformer)
    names = {"u0": {}, "u1": {}, "missing": {}}
    speech = partial(read_speech, rate=rate)
    return model, *read_samples(speech, target_vocabulary(conformer), read_data_dir(dev_dir), names)


def test_the_loss_of_each_is_the_weighted_sum_of_both_losses(read):
    model, utterances, skipped = read
    assert list(skipped) == ["missing"] and [each.utterance for each in utterances] == ["u0", "u1"]
    found = losses(model.train(), utterances)
    assert not model.training
    for each, value in zip(utterances, found, strict=True):
        speech, text = torch.from_numpy(each.source)[None], torch.tensor([each.tokens])
        with torch.no_grad():
            frames, lengths = model.encode(speech, torch.tensor([speech.size(1)]))
            count = torch.tensor([text.size(1)])
            ctc = model.ctc(frames, lengths, text, count)
            attention = model._calc_att_loss(frames, lengths, text, count)[0]
        assert value == pytest.approx(float(model.ctc_weight * ctc + (1 - model.ctc_weight) * attention), rel=1e-6)
    assert np.ptp(found) > 0
