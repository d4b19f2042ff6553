import matplotlib.image
import pytest
import torch

from espnet_diverse.analysis.collect import Observation
from espnet_diverse.attention import HeadMap
from espnet_diverse.demo.head_plots import Sides, head_pictures
from espnet_diverse.errors import ConfigError

WRITTEN, READ = ["x", "y"], ["a", "b", "c"]


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


def labels(axes):
    """Name and labels of the horizontal condition and of the vertical one, the labels as one text."""
    texts = [" ".join(label.get_text() for label in a.get_ticklabels()) for a in (axes.xaxis, axes.yaxis)]
    return axes.get_xlabel(), texts[0], axes.get_ylabel(), texts[1]


def test_one_head_is_drawn_under_its_own_number(drawn, tmp_path):
    attention, clusters = head_pictures(SPEECH, "cross", 2, 3, Sides(WRITTEN), "segment 1")
    titles = [[axes.get_title() for axes in figure.axes if axes.get_title()] for figure in drawn]
    assert titles[0] == ["head 3: semantic mask M", "head 3: attention"]
    assert titles[1] == ["head 3: tokens", "head 3: frames", "head 3: queries"]
    seen = SPEECH["cross"]
    mask, weights = (axes.images[0].get_array() for axes in drawn[0].axes[:2])
    assert (weights == seen.weights[1, 2].numpy()).all() and (mask == seen.maps["semantic"].values[1, 2].numpy()).all()
    assert (drawn[1].axes[1].images[0].get_array() == seen.posteriors["frames"][1, 2].T.numpy()).all()
    assert drawn[0].get_suptitle() == "segment 1: decoder cross-attention, layer 2"
    assert attention.alternative == "semantic mask M and attention of head 3, decoder cross-attention, layer 2"
    assert "The semantic mask is what the clusters alone would choose" in attention.caption
    assert clusters.alternative == "cluster probabilities of head 3, decoder cross-attention, layer 2"
    (tmp_path / "a.png").write_bytes(attention.png)
    assert matplotlib.image.imread(tmp_path / "a.png")[..., :3].std() > 0.05


def test_all_heads_of_a_layer(drawn):
    (picture,) = head_pictures(SPEECH, "encoder", 1, None, Sides(WRITTEN), "segment 1")
    titles = [axes.get_title() for axes in drawn[0].axes if axes.get_title()]
    assert titles == ["head 1: attention", "head 2: attention", "head 3: attention"]
    assert picture.alternative == "attention of heads 1 to 3, encoder self-attention, layer 1"
    assert "mask" not in picture.caption


@pytest.mark.parametrize(
    ("seen", "kind", "expected"),
    [
        (SPEECH, "encoder", ("encoder frame (key)", None, "encoder frame (query)", None)),
        (SPEECH, "decoder", ("token read (key)", "<sos> x y", "token predicted", "x y <eos>")),
        (SPEECH, "cross", ("encoder frame (key)", None, "token predicted", "x y <eos>")),
        (TEXT, "encoder", ("token read (key)", "<sos> a b c", "token read", "<sos> a b c")),
        (TEXT, "cross", ("token read (key)", "<sos> a b c", "token predicted", "x y <eos>")),
    ],
)
def test_axes_say_what_is_asked_and_what_is_read(drawn, seen, kind, expected):
    head_pictures(seen, kind, 1, 1, Sides(WRITTEN, READ if seen is TEXT else None), "it")
    found = labels(drawn[0].axes[0])
    assert [f for f, e in zip(found, expected, strict=True) if e is not None] == [e for e in expected if e is not None]


def test_clusters_of_a_text_have_its_tokens(drawn):
    head_pictures(TEXT, "encoder", 1, 1, Sides(WRITTEN, READ), "line 1")
    assert [labels(axes)[:2] for axes in drawn[1].axes[:2]] == [("token read", "<sos> a b c")] * 2
    head_pictures(TEXT, "cross", 1, 1, Sides(WRITTEN, READ), "line 1")
    written, read = ("token predicted", "x y <eos>"), ("token read", "<sos> a b c")
    assert [labels(axes)[:2] for axes in drawn[3].axes[:3]] == [written, read, written]


@pytest.mark.parametrize(
    ("kind", "layer", "head", "message"),
    [
        ("sideways", 1, 1, "attention 'sideways' is unknown; known: encoder decoder cross"),
        ("encoder", 3, 1, "layer 3 does not exist; the encoder self-attention has layers 1 to 2"),
        ("cross", 0, None, "layer 0 does not exist; the decoder cross-attention has layers 1 to 2"),
        ("encoder", 1, 4, "head 4 does not exist; the encoder self-attention has heads 1 to 3"),
    ],
)
def test_what_is_not_there(kind, layer, head, message):
    with pytest.raises(ConfigError, match=message):
        head_pictures(SPEECH, kind, layer, head, Sides(WRITTEN), "it")
