"""The report: numbers, arrays and pictures of a survey, complete or not at all. Its page is tested in bin."""

import json

import numpy as np
import pytest
import torch
from references.ablations import ablation
from references.figures import leave_pictures_empty

from espnet_diverse.analysis import report
from espnet_diverse.analysis.collect import Observation
from espnet_diverse.analysis.measurements import QuerySample, Survey
from espnet_diverse.analysis.report import Example, write_report
from espnet_diverse.analysis.sections import AblationSection
from espnet_diverse.attention import HeadMap
from espnet_diverse.decoding.frame_times import FrameTimes

TOKENS = ("a", "b", "c")
TIMES = FrameTimes(0.02, 0.04)


def observation(clusters):
    """Random weights of two layers with two heads, from queries to as many keys."""
    size = len(TOKENS) + 1
    weights = torch.rand(2, 2, size, size).softmax(-1)
    queries, outputs = torch.randn(2, size, 4), torch.randn(2, 2, size, 4)
    if not clusters:
        return Observation(weights, queries, outputs)
    maps = {"semantic": HeadMap("Semantic mask", "It shows clusters.", weights)}
    return Observation(weights, queries, outputs, maps, {"tokens": torch.rand(2, 2, size, 3).softmax(-1)})


def surveyed(clusters, count=3):
    torch.manual_seed(0)
    survey = Survey()
    for number in range(count):
        seen = observation(clusters)
        survey.utterances.append(f"u{number}")
        survey.redundancy["decoder"].add(seen.weights, seen.outputs)
        survey.distances["decoder", "attention"].add(seen.weights)
        for clustered, posteriors in seen.posteriors.items():
            survey.clusters["decoder", clustered].add(posteriors)
        survey.queries.setdefault("decoder", QuerySample(count)).add(seen.queries)
    return survey, Example("u0", TOKENS, {"decoder": seen})


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Queries lie on the plane as they come, without t-SNE, and pictures are empty; they are tested beside `plots`."""
    monkeypatch.setattr(report, "embed", lambda queries: queries[..., :2])
    leave_pictures_empty(monkeypatch)


@pytest.mark.parametrize("clusters", [True, False])
def test_numbers_and_arrays_agree(tmp_path, clusters):
    survey, example = surveyed(clusters)
    survey.skipped["u9"] = "no audio"
    write_report(survey, example, [], "A <model>", tmp_path)
    numbers = json.loads((tmp_path / "analysis.json").read_text())
    with np.load(tmp_path / "analysis.npz") as file:
        arrays = dict(file)
    assert (numbers["utterances"], numbers["skipped"]) == (3, {"u9": "no audio"})
    assert arrays["utterances"].tolist() == ["u0", "u1", "u2"] and arrays["example"] == "u0"
    assert numbers["redundancy"]["decoder"]["hr"] == pytest.approx(arrays["decoder_hr"].mean())
    apart = survey.distances["decoder", "attention"].by_head()
    np.testing.assert_allclose(arrays["decoder_attention_distance"].mean(0), apart)
    assert numbers["attention_distance"] == {"decoder self-attention: attention": apart.tolist()}
    assert numbers["query_separation"] == {"decoder": pytest.approx(report.separation(arrays["decoder_query"]))}
    assert arrays["decoder_lr_bits"].shape == (3, 2) and arrays["decoder_pairs"].shape == (4, 4)
    np.testing.assert_array_equal(arrays["decoder_example_attention"], example.seen["decoder"].weights)
    assert any("usage" in name for name in arrays) == any("posterior" in name for name in arrays) == clusters
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    expected = {".prepared.json", "queries.png", "layers.png"}
    expected |= {f"decoder.{name}.png" for name in ("heads", "redundancy", "attention")}
    assert pictures == expected | ({"decoder.clusters.png", "decoder.posteriors.png"} if clusters else set())
    page = (tmp_path / "analysis.html").read_text()
    assert "A &lt;model&gt;" in page and "1 could not be measured" in page
    assert f"<td>{apart.mean(1)[0]:.2f}</td><td>{apart.mean(1)[1]:.2f}</td>" in page
    assert "Left out, because none keeps a matrix of weights for each head: encoder self-attention" in page
    assert ("has no clusters: cluster usage" in page) == (not clusters)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "analysis.html",
        "analysis.json",
        "analysis.npz",
        "pictures",
    ]


def test_cross_attention_alone_has_no_distances(tmp_path):
    survey, example = surveyed(False)
    survey.distances.clear()
    write_report(survey, example, [], "mine", tmp_path)
    assert "How far heads look" not in (tmp_path / "analysis.html").read_text()
    assert json.loads((tmp_path / "analysis.json").read_text())["attention_distance"] == {}


def test_sections_on_request_are_part_of_every_file(tmp_path):
    section = AblationSection(ablation("loss", 3, 1.0, {"decoder": np.array([[1.5, 1.0]])}))
    write_report(*surveyed(False), [], "Model", tmp_path, [section])
    assert json.loads((tmp_path / "analysis.json").read_text())["ablation"]["drops"] == {"decoder": [[0.5, 0.0]]}
    np.testing.assert_array_equal(np.load(tmp_path / "analysis.npz")["decoder_loss_drop"], [[0.5, 0.0]])
    assert (tmp_path / "pictures" / "ablation.histogram.png").is_file()
    assert ">Head ablation</h2>" in (tmp_path / "analysis.html").read_text()


def test_source_tokens_label_encoder_and_cross_attention(tmp_path, monkeypatch):
    survey, example = surveyed(False)
    drawn = {}

    def draw(maps, utterance, path, tokens=None, key_tokens=None, times=None):
        assert times == TIMES
        drawn[path.name.split(".")[0]] = tokens, key_tokens
        path.write_bytes(b"")

    monkeypatch.setattr(report, "draw", draw)
    seen = dict.fromkeys(("encoder", "decoder", "cross"), example.seen["decoder"])
    predicted, read, source = [*TOKENS, "<eos>"], ["<sos>", *TOKENS], ["<sos>", "x", "y", "z"]
    write_report(survey, Example("u0", TOKENS, seen, ["x", "y", "z"], TIMES), [], "Model", tmp_path)
    assert drawn == {"encoder": (source, source), "decoder": (predicted, read), "cross": (predicted, source)}
    write_report(survey, Example("u0", TOKENS, seen, times=TIMES), [], "Model", tmp_path)
    assert "in encoder frames of 40 ms or in tokens" in (tmp_path / "analysis.html").read_text()
    assert drawn == {"encoder": (None, None), "decoder": (predicted, read), "cross": (predicted, None)}


def test_a_failure_leaves_neither_arrays_nor_the_page_of_an_earlier_model(tmp_path, monkeypatch):
    def broken(path, **arrays):
        path.write_bytes(b"half")
        raise OSError("disk full")

    (tmp_path / "analysis.html").write_text("of another model")
    monkeypatch.setattr(report.np, "savez_compressed", broken)
    with pytest.raises(OSError, match="disk full"):
        write_report(*surveyed(False), [], "Model", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"]
