import base64
from dataclasses import replace

import numpy as np
import pytest
import torch

from espnet_diverse.analysis.collect import VECTORS, Observation
from espnet_diverse.attention import HeadMap
from espnet_diverse.demo.head_maps import Axis, Sides, head_maps, spectrogram
from espnet_diverse.errors import ConfigError

WRITTEN, READ = ["x", "y"], ["a", "b", "c"]
SECONDS = Axis("second", start=2.0, step=0.04)


def observation(queries, keys, clusters=None):
    """Two layers of three heads, each different."""
    torch.manual_seed(0)
    weights = torch.rand(2, 3, queries, keys).softmax(-1)
    posteriors = {name: torch.rand(2, 3, length, 4).softmax(-1) for name, length in (clusters or {}).items()}
    mask = HeadMap("semantic mask M", "The semantic mask is what the clusters alone would choose.", weights.flip(-1))
    heads = torch.zeros(1, 3, queries, 2)
    return Observation(weights, heads[0], heads, {"semantic": mask} if clusters else {}, posteriors)


SPEECH = {
    "encoder": observation(9, 9),
    "decoder": observation(3, 3),
    "cross": observation(3, 9, {"tokens": 3, "frames": 9, "queries": 3}),
}
TEXT = {
    "encoder": observation(4, 4, {"source tokens": 4, "queries": 4}),
    "decoder": observation(3, 3, {"tokens": 3, "queries": 3}),
    "cross": observation(3, 4, {"tokens": 3, "source tokens": 4, "queries": 3}),
}


def values(plot, index=0):
    """The values of a map, from bytes."""
    flat = np.frombuffer(base64.b64decode(plot["maps"][index]["values"]), np.uint8)
    return flat.reshape(plot["rows"]["count"], plot["columns"]["count"]) / 255 * plot["most"]


def test_one_head_is_there_under_its_own_number():
    plots = head_maps(SPEECH, "cross", 2, 3, Sides(WRITTEN, None, SECONDS))
    names = ["attention", "semantic mask M", "clusters of tokens", "clusters of frames", "clusters of queries"]
    assert [plot["title"] for plot in plots] == names
    assert [[one["head"] for one in plot["maps"]] for plot in plots] == [[3]] * 5
    seen, half = SPEECH["cross"], 0.5 / 255
    np.testing.assert_allclose(values(plots[0]), seen.weights[1, 2], atol=half)
    np.testing.assert_allclose(values(plots[1]), seen.maps["semantic"].values[1, 2], atol=half)
    np.testing.assert_allclose(values(plots[3]), seen.posteriors["frames"][1, 2].T, atol=half)
    assert plots[0]["most"] == pytest.approx(seen.weights[1, 2].max().item()) and plots[3]["most"] == 1.0
    assert plots[1]["caption"] == "The semantic mask is what the clusters alone would choose."


def test_heads_of_a_layer_share_a_scale():
    (plot,) = head_maps(SPEECH, "encoder", 1, None, Sides(WRITTEN))
    assert [one["head"] for one in plot["maps"]] == [1, 2, 3]
    weights = SPEECH["encoder"].weights[0]
    assert plot["most"] == pytest.approx(weights.max().item())
    for head in range(3):
        np.testing.assert_allclose(values(plot, head), weights[head], atol=0.5 / 255)


FRAMES = ("second", None)


@pytest.mark.parametrize(
    ("seen", "kind", "rows", "columns"),
    [
        (SPEECH, "encoder", FRAMES, FRAMES),
        (SPEECH, "decoder", ("token predicted", "x y <eos>"), ("token read", "<sos> x y")),
        (SPEECH, "cross", ("token predicted", "x y <eos>"), FRAMES),
        (TEXT, "encoder", ("token read", "<sos> a b c"), ("token read", "<sos> a b c")),
        (TEXT, "cross", ("token predicted", "x y <eos>"), ("token read", "<sos> a b c")),
    ],
)
def test_axes_are_labelled_with_tokens_or_seconds(seen, kind, rows, columns):
    plot = head_maps(seen, kind, 1, 1, Sides(WRITTEN, READ if seen is TEXT else None, SECONDS))[0]
    found = [(axis["name"], axis["labels"] and " ".join(axis["labels"])) for axis in (plot["rows"], plot["columns"])]
    assert found == [rows, columns]
    for axis in (plot["rows"], plot["columns"]):
        assert axis["labels"] is None or len(axis["labels"]) == axis["count"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("encoder", ["<sos> a b c", "<sos> a b c"]), ("cross", ["x y <eos>", "<sos> a b c", "x y <eos>"])],
)
def test_clusters_of_a_text_have_its_tokens(kind, expected):
    plots = head_maps(TEXT, kind, 1, 1, Sides(WRITTEN, READ))[2:]
    assert [" ".join(plot["columns"]["labels"]) for plot in plots] == expected
    assert [(plot["rows"]["name"], plot["rows"]["count"], plot["rows"]["start"]) for plot in plots] == [
        ("cluster", 4, 1.0)
    ] * len(plots)


def test_keys_that_are_made_of_the_source_are_counted():
    one = replace(TEXT["cross"], of_vectors=True, posteriors={VECTORS: torch.rand(2, 3, 5, 4)})
    weights, clusters = head_maps({"cross": one}, "cross", 1, 1, Sides(WRITTEN, READ))[::2]
    for axis in (weights["columns"], clusters["columns"]):
        assert (axis["name"], axis["labels"]) == (VECTORS, None)


def test_neighbouring_frames_of_a_long_recording_become_their_greatest():
    seen = {"cross": observation(2, 1001)}
    (plot,) = head_maps(seen, "cross", 1, 2, Sides(["x"], None, SECONDS))
    assert plot["columns"]["count"] == 334 and plot["rows"]["count"] == 2
    assert (plot["columns"]["start"], plot["columns"]["step"]) == (2.0, pytest.approx(0.12))
    weights = seen["cross"].weights[0, 1].numpy()
    expected = np.stack([weights[:, begin : begin + 3].max(1) for begin in range(0, 1001, 3)], 1)
    np.testing.assert_allclose(values(plot), expected, atol=plot["most"] / 255)


@pytest.mark.parametrize(
    ("kind", "layer", "head", "message"),
    [
        ("sideways", 1, 1, "attention 'sideways' is unknown; known: encoder decoder cross"),
        ("encoder", 3, 1, "layer 3 does not exist; the encoder self-attention has layers 1 to 2"),
        ("cross", 0, None, "layer 0 does not exist; the decoder cross-attention has layers 1 to 2"),
        ("encoder", 1, 4, "head 4 does not exist; the encoder self-attention has heads 1 to 3"),
    ],
)
def test_unknown_attention_layer_or_head_is_refused(kind, layer, head, message):
    with pytest.raises(ConfigError, match=message):
        head_maps(SPEECH, kind, layer, head, Sides(WRITTEN))


def levels(found):
    flat = np.frombuffer(base64.b64decode(found["values"]), np.uint8)
    return flat.reshape(found["rows"], found["columns"])


@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
@pytest.mark.parametrize("hertz", [300, 1000, 3500])
def test_a_tone_is_in_the_row_of_its_frequency(rate, hertz):
    tone = np.sin(2 * np.pi * hertz * np.arange(rate) / rate).astype(np.float32)
    found = spectrogram(tone, rate, 0.0)
    row = found["rows"] * (1 - hertz / found["hertz"])
    assert found["hertz"] == rate / 2
    np.testing.assert_allclose(levels(found)[:, 5:-5].argmax(axis=0) + 0.5, row, atol=1.1)
    assert levels(found).max() == 255 and np.median(levels(found)) == 0


@pytest.mark.parametrize("seconds", [0.3, 3.0, 30.0, 300.0])
def test_a_click_is_in_the_column_of_its_time(seconds):
    samples = np.zeros(round(16_000 * seconds), np.float32)
    samples[round(0.7 * len(samples))] = 1.0
    found = spectrogram(samples, 16_000, 12.0)
    column = int(levels(found).sum(axis=0).argmax())
    begin = found["start"] + column * found["step"]
    assert begin - 0.016 <= 12 + 0.7 * seconds <= begin + found["step"] + 0.016
    assert found["columns"] <= 401 and found["start"] + found["columns"] * found["step"] >= 12 + seconds


@pytest.mark.parametrize("samples", [np.zeros(1, np.float32), np.zeros(4000, np.float32)])
def test_silence_is_zero(samples):
    assert not levels(spectrogram(samples, 16_000, 0.0)).any()
