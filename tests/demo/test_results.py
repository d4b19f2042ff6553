"""Results that the page keeps, and maps of the heads on them."""

from dataclasses import replace

import pytest
import torch

from espnet_diverse.decoding.frame_times import frame_times
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.demo import results
from espnet_diverse.demo.head_maps import spectrogram
from espnet_diverse.demo.results import Results
from espnet_diverse.demo.task_services import load_service
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.serve.limits import Limits
from espnet_diverse.transcription.segmentation_options import SegmentationOptions


def test_heads_of_speech(speech, recognised):
    chosen = {"result": recognised["id"], "segment": "0"}
    first = speech.heads(b"", chosen)
    assert (first["attention"], first["layer"], first["head"]) == ("cross", 1, "all")
    shapes = [(each["kind"], each["layers"], each["heads"]) for each in first["attentions"]]
    assert shapes == [("encoder", 1, 2), ("decoder", 1, 2), ("cross", 1, 2)]
    assert [each["name"] for each in first["attentions"]][0] == "encoder self-attention"
    titles = ["attention", "semantic mask M", "clusters of tokens", "clusters of frames", "clusters of queries"]
    assert [plot["title"] for plot in first["plots"]] == titles
    assert all([one["head"] for one in plot["maps"]] == [1, 2] for plot in first["plots"])
    second = speech.heads(b"", {**chosen, "attention": "encoder", "layer": "1", "head": "2"})
    assert (second["attention"], second["layer"], second["head"]) == ("encoder", 1, 2)
    (one,) = second["plots"][0]["maps"]
    assert one["head"] == 2 and one["values"] != first["plots"][0]["maps"][1]["values"]


def test_frames_are_in_seconds_of_the_recording(speech, recognised, monkeypatch):
    axis = speech.heads(b"", {"result": recognised["id"]})["plots"][0]["columns"]
    times = frame_times(speech.search.encoding.model, 16_000)
    assert (axis["name"], axis["start"], axis["step"]) == ("second", times.boundary(0), times.step)
    assert 0 <= axis["start"] < axis["start"] + axis["count"] * axis["step"] < 0.75 + axis["step"]
    (segment,) = speech.results._kept[recognised["id"]]
    later = speech.heads(b"", {"result": speech.results.keep([replace(segment, start=12.0)])})
    assert later["plots"][0]["columns"]["start"] == 12.0 + times.boundary(0)
    assert later["sound"] == spectrogram(segment.source, 16_000, 12.0)
    monkeypatch.delattr(speech.search.encoding.model.frontend, "hop_length")
    axis = speech.heads(b"", {"result": recognised["id"]})["plots"][0]["columns"]
    assert (axis["name"], axis["start"], axis["step"]) == ("encoder frame", 1.0, 1.0)


@pytest.mark.parametrize("kind", ["speech", "translation"])
def test_heads_are_mapped_with_the_model_of_the_search(kind, tiny_run, recording, request, monkeypatch):
    service = request.getfixturevalue(kind)
    body = recording.read_bytes() if kind == "speech" else b"abcd"
    (segment,) = service.results._kept[service.run(body, {"name": "x.wav"})["id"]]
    loads = []
    load_model = results.load_model
    monkeypatch.setattr(results, "load_model", lambda *args, **how: loads.append(args) or load_model(*args, **how))
    folder, search = service.results.model_dir, service.search
    own = Results(search, folder)._look(segment)
    assert loads == [] and list(own) == ["encoder", "decoder", "cross"]
    copies = {"int8": Results(load_predictor(folder, precision="int8"), folder)._look(segment)}
    copies["in use"] = Results(search, folder, shared=True)._look(segment)
    assert len(loads) == 2
    for why, copy in copies.items():
        for each, seen in own.items():
            torch.testing.assert_close(seen.weights, copy[each].weights, rtol=0, atol=1e-5, msg=f"{why}: {each}")
            torch.testing.assert_close(seen.queries, copy[each].queries, rtol=0, atol=1e-4)
            assert seen.posteriors.keys() == copy[each].posteriors.keys()


def test_a_model_that_listens_meanwhile_is_not_used(streaming_run):
    service = load_service(streaming_run, None, Limits(), SegmentationOptions(vad="none"))
    assert service.live is not None and service.results.needs_copy
    assert service.results._model is not service.search.encoding.model


def test_heads_of_text(translation):
    found = translation.run(b"abc\ndcba", {})
    shown = translation.heads(b"", {"result": found["id"], "segment": "1", "attention": "encoder"})
    assert shown["attention"] == "encoder" and len(shown["plots"]) > 1
    assert shown["plots"][0]["columns"]["labels"] == ["<sos>", *"dcba"]
    assert shown["sound"] is None


def test_heads_that_are_not_there(speech, recognised):
    chosen = {"result": recognised["id"]}
    for wrong, message in (
        ({"result": "no"}, "only the last 4 results are kept, and this one is not among them; run it again"),
        ({"segment": "1"}, "segment 1 does not exist; the result has 1 segments"),
        ({"attention": "no"}, "attention 'no' is unknown; known: encoder decoder cross"),
        ({"head": "3"}, "head 3 does not exist; the decoder cross-attention has heads 1 to 2"),
        ({"layer": "x"}, "layer must be a whole number, but is 'x'"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            speech.heads(b"", {**chosen, **wrong})


def test_a_model_without_such_attention(translation, monkeypatch):
    monkeypatch.setattr(results, "observe", lambda *_: {})
    found = translation.run(b"abc", {})
    with pytest.raises(ModelError, match="this model has no attention with one matrix of weights per head"):
        translation.heads(b"", {"result": found["id"]})


def test_the_last_results_are_kept(translation):
    names = [translation.run(b"a", {})["id"] for _ in range(5)]
    assert len(set(names)) == 5
    with pytest.raises(DataError, match="only the last 4 results are kept"):
        translation.heads(b"", {"result": names[0]})
    assert translation.heads(b"", {"result": names[1]})["plots"]


def test_an_empty_text_has_no_heads(speech, recognised):
    (segment,) = speech.results._kept[recognised["id"]]
    empty = speech.results.keep([replace(segment, tokens=())])
    with pytest.raises(DataError, match="the text is empty, so there are no heads to plot; choose another$"):
        speech.heads(b"", {"result": empty})
