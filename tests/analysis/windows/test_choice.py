"""Windows of a conformer: the tolerance holds for losses that are computed anew, and the reach is the measured one."""

import numpy as np
import pytest
import torch

from espnet_diverse.analysis.teacher_forcing import load, target_vocabulary
from espnet_diverse.analysis.windows.choice import choose_windows, pairs_of
from espnet_diverse.analysis.windows.encoder_heads import as_option, encoder_heads
from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.packing.adoption import adopt
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.tasks import load_model


def loss(model_dir, dev_dir, names=("u0", "u1", "u2")):
    """The mean loss of a run as its training computes it, from its files."""
    import soundfile

    model, vocabulary, data = load_model(model_dir)[0].eval(), target_vocabulary(model_dir), read_data_dir(dev_dir)
    found = []
    for name in names:
        speech = torch.from_numpy(soundfile.read(data.wav_scp[name], dtype="float32")[0])[None]
        text = torch.tensor([vocabulary.encode(data.text[name])])
        lengths = torch.tensor([speech.size(1)]), torch.tensor([text.size(1)])
        with torch.no_grad():
            found.append(model(speech, lengths[0], text, lengths[1])[0].item())
    return np.mean(found)


@pytest.mark.parametrize("tolerance", [0.01, 1, 20])
def test_the_loss_of_the_adopted_model_is_within_the_tolerance(choose, conformer, dev_dir, tmp_path, tolerance):
    model, chosen = choose(tolerance)
    patterns = f"encoder_conf.attention={{core: softmax, head_patterns: {as_option(chosen.chosen())}}}"
    adopt(conformer, tmp_path / "new", merge([], [patterns.replace("'", "")]))
    before, after = loss(conformer, dev_dir), loss(tmp_path / "new", dev_dir)
    assert after <= before * (1 + tolerance / 100)
    np.testing.assert_allclose(chosen.before.mean(), before, rtol=1e-6)
    np.testing.assert_allclose(chosen.after.mean(), after, rtol=1e-6)
    np.testing.assert_allclose(chosen.rise(), 100 * (after / before - 1), atol=1e-4)
    widths = [[each.width for each in layer.patterns.patterns] for layer in encoder_heads(model)]
    assert widths == chosen.chosen().tolist()


def test_more_tolerance_leaves_fewer_pairs(choose):
    strict, lax = choose(0.01)[1], choose(50)[1]
    assert lax.pairs() < strict.pairs() <= 1
    assert lax.widths == strict.widths == (1, 2, 4, 8, 16, 32)  # 27 positions of 40 ms
    np.testing.assert_allclose(lax.reach[..., -1], 1)
    low, high = lax.rise_interval()
    assert low <= lax.rise() <= high and high > low
    assert f"{lax.rise():.3g} %" in lax.summary() and "tolerance of 50 %" in lax.summary()


def test_few_passes_still_give_windows_within_the_tolerance(choose):
    _, chosen = choose(5, most_passes=6)
    assert chosen.passes <= 9 and chosen.rise() <= 5


def test_pairs_are_those_of_all_utterances():
    assert pairs_of([3, 2], [1, 2]).tolist() == [7 + 4, 9 + 4]


def test_utterances_that_cannot_be_read_or_are_too_short_are_left_out(choose):
    _, chosen = choose(50, names=("u0", "u9", "u3"))
    assert chosen.utterances == ["u0"] and list(chosen.skipped) == ["u9", "u3"]
    with pytest.raises(DataError, match="none of 1 utterances could be read; first u9"):
        choose(50, names=("u9",))
    with pytest.raises(DataError, match="none of 1 utterances could be used; first u3: 160 samples are too short"):
        choose(50, names=("u3",))


def test_a_loss_that_needs_source_texts_is_refused(conformer, dev_dir):
    model, rate = load(conformer)
    model.asr_weight = 0.3
    with pytest.raises(ModelError, match="needs source texts; adopt it with --set model_conf.asr_weight=0"):
        choose_windows(model, target_vocabulary(conformer), dev_dir, {"u0": {}}, rate, 1.0)
