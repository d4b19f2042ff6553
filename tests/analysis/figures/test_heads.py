import matplotlib.image
import numpy as np
import pytest
import soundfile
import torch
from references.owsm_ctc import write_ctc_model
from references.tones import tones

from espnet_diverse.analysis.figures import heads
from espnet_diverse.analysis.figures.heads import HeadMaps, draw, head_maps
from espnet_diverse.analysis.teacher_forcing import load
from espnet_diverse.attention import Supports
from espnet_diverse.decoding.frame_times import FrameTimes
from espnet_diverse.errors import DataError
from espnet_diverse.runs.tasks import load_model

FRAMES = 18  # 12000 samples, a hop of 160, and two convolutions of stride 2


@pytest.fixture(scope="module")
def maps(tiny_run):
    model, _ = load_model(tiny_run.model_dir)
    speech, _ = soundfile.read(tiny_run.test_dir / "test-00.wav", dtype="float32")
    return head_maps(model.eval(), speech, [2, 3, 4])


def test_maps_of_the_last_layers(maps):
    encoder, decoder = maps["encoder"], maps["decoder"]
    assert encoder.layer == "encoder layer 1 self-attention" and decoder.layer == "decoder layer 1 cross-attention"
    for maps_of_one, shape in ((encoder, (2, FRAMES, FRAMES)), (decoder, (2, 4, FRAMES))):
        assert list(maps_of_one.kinds()) == ["semantic mask M", "attention"]
        for values in maps_of_one.kinds().values():
            assert values.shape == shape
            np.testing.assert_allclose(values.sum(-1), 1, rtol=1e-5)


def test_a_figure_has_a_row_for_each_head_and_a_column_for_each_kind(maps, tmp_path, drawn):
    decoder = maps["decoder"]
    draw(decoder, "test-00", tmp_path / "new" / "both.png", ["a", "b", "c", "<eos>"])
    draw(HeadMaps("layer", decoder.attention), "test-00", tmp_path / "one.png")
    both = matplotlib.image.imread(tmp_path / "new" / "both.png")
    one = matplotlib.image.imread(tmp_path / "one.png")
    assert both.shape[0] == one.shape[0] and both.shape[1] > 1.5 * one.shape[1]
    assert both[..., :3].std() > 0.05
    shown = [[axes.images[0].get_array() for axes in figure.axes if axes.get_title()] for figure in drawn]
    rows = np.stack([decoder.kinds()[kind] for kind in ("semantic mask M", "attention")], 1).reshape(4, 4, FRAMES)
    np.testing.assert_array_equal(shown[0], rows)
    np.testing.assert_array_equal(shown[1], decoder.attention)


def test_attention_to_a_prompt_is_not_taken_for_self_attention(tmp_path):
    model, _ = load(write_ctc_model(tmp_path / "exp"))
    maps = head_maps(model, tones(1, 0), [], {"lang": 0, "tgtlang": 1})
    assert list(maps) == ["encoder"] and maps["encoder"].layer == "encoder layer 3 self-attention"
    with pytest.raises(DataError, match="7.0 s are more than the 6 s that the model reads"):
        head_maps(model, tones(7, 0), [], {"lang": 0, "tgtlang": 1})
    assert maps["encoder"].attention.shape[1:] == (76, 76)  # 6 s of audio, after the two symbols of the prompt


def test_a_net_without_such_attention(caplog, monkeypatch):
    monkeypatch.setattr(heads, "observe", lambda *_: {})
    assert head_maps(torch.nn.Module(), None, []) == {}
    assert caplog.messages[1] == "no figure of the decoder: it has no attention with weights for one utterance"


def test_keys_that_are_made_of_the_source_have_no_names_of_it(tiny_autoencoder, tmp_path, drawn):
    model, _ = load(tiny_autoencoder.model_dir)
    maps = head_maps(model, np.array([2, 3, 4]), [2, 3, 4])
    assert maps["decoder"].attention.shape == (2, 4, 2) and not maps["encoder"].of_vectors
    read, times = ["<sos>", "a", "b", "c"], FrameTimes(first=0.02, step=0.04)
    draw(maps["decoder"], "test-00", tmp_path / "decoder.png", ["a", "b", "c", "<eos>"], read, times)
    assert drawn[0].axes[-3].get_xlabel() == "vectors of the source, key"
    assert [tick for tick in drawn[0].axes[-3].get_xticks() if -0.5 <= tick <= 1.5] == [0, 1]


@pytest.mark.parametrize(
    ("memory", "why"), [(False, "attention 'sdma' gives no weights"), (True, "it works by segments")]
)
def test_a_net_without_weights_is_left_out_and_the_reason_said(tiny_run, caplog, memory, why):
    model, _ = load_model(tiny_run.model_dir)
    model = model.eval()
    for layer in model.encoder.encoders:
        layer.self_attn.core.supports = Supports()
        if memory:
            layer.self_attn.memory = None
    speech, _ = soundfile.read(tiny_run.test_dir / "test-00.wav", dtype="float32")
    assert list(head_maps(model, speech, [2, 3, 4])) == ["decoder"]
    assert caplog.messages[0].startswith(f"no figure of the encoder: {why}")


def test_frames_are_drawn_in_seconds_where_their_times_are_known(maps, tmp_path, drawn):
    times = FrameTimes(first=0.02, step=0.04)
    draw(maps["encoder"], "test-00", tmp_path / "encoder.png", times=times)
    draw(maps["decoder"], "test-00", tmp_path / "decoder.png", ["a", "b", "c", "<eos>"], times=times)
    draw(maps["encoder"], "test-00", tmp_path / "frames.png")
    encoder, decoder, frames = (figure.axes[-3] for figure in drawn)  # without the colour bars
    seconds = pytest.approx([0, FRAMES * 0.04])
    assert (encoder.get_xlim(), sorted(encoder.get_ylim())) == (seconds, seconds)
    assert [axes.get_xlabel() for axes in (encoder, decoder, frames)] == [
        *("time (s), key", "time (s), key", "encoder frame, key"),
    ]
    assert decoder.get_xlim() == seconds and decoder.get_ylim() == (3.5, -0.5)
    assert drawn[1].axes[0].get_ylabel() == "token predicted, query"
