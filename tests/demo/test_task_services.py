import base64
import tempfile

import numpy as np
import pytest
import soundfile

from espnet_diverse.decoding.options import Options
from espnet_diverse.demo import results
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.inference import Recognizer, Translator
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

BEAM = {"beam_size": "4", "nbest": "3"}


@pytest.fixture(scope="module")
def recording(tiny_run):
    return tiny_run.test_dir / "test-00.wav"


@pytest.fixture(scope="module")
def recognised(speech, recording):
    return speech.run(recording.read_bytes(), {**BEAM, "name": "test-00.wav"})


def test_recognition_is_that_of_the_recognizer(recognised, tiny_run, recording):
    options = Options(beam_size=4, nbest=3, minlenratio=-3, maxlenratio=-6)
    recognizer = Recognizer(tiny_run.model_dir, options=options, segmentation=SegmentationOptions(vad="none"))
    expected = recognizer.transcribe(recording, word_timestamps=True)
    assert recognised["text"] == expected.text != "" and recognised["found"] == []
    assert recognised["duration"] == expected.duration == 0.75 and recognised["seconds"] > 0
    (segment,) = recognised["segments"]
    texts = [(other["text"], other["score"]) for other in segment["alternatives"]]
    assert texts == [(other.text, pytest.approx(other.score)) for other in expected.segments[0].alternatives]
    assert len(texts) == 3
    words = [word.text for word in expected.segments[0].words]
    assert [word["text"] for word in segment["words"]] == words and words
    assert all(0 <= word["start"] <= word["end"] <= 0.75 and 0 <= word["confidence"] <= 1 for word in segment["words"])


def test_translation_is_that_of_the_translator(translation, tiny_translation):
    found = translation.run(b"abc\n\n  dcba  \n", BEAM)
    options = Options(beam_size=4, nbest=3, minlenratio=-3, maxlenratio=-6)
    expected = Translator(tiny_translation.model_dir, options=options).translate(["abc", "dcba"])
    assert [segment["source"] for segment in found["segments"]] == ["abc", "dcba"]
    assert [segment["text"] for segment in found["segments"]] == [one.text for one in expected]
    assert found["text"] == "\n".join(one.text for one in expected)
    assert [len(segment["alternatives"]) for segment in found["segments"]] == [3, 3]


def test_heads_of_speech(speech, recognised):
    chosen = {"result": recognised["id"], "segment": "0"}
    first = speech.heads(b"", chosen)
    assert (first["attention"], first["layer"], first["head"]) == ("cross", 1, "all")
    shapes = [(each["kind"], each["layers"], each["heads"]) for each in first["attentions"]]
    assert shapes == [("encoder", 1, 2), ("decoder", 1, 2), ("cross", 1, 2)]
    assert [each["name"] for each in first["attentions"]][0] == "encoder self-attention"
    assert len(first["pictures"]) == 2
    for picture in first["pictures"]:
        assert base64.b64decode(picture["png"]).startswith(b"\x89PNG") and picture["caption"] and picture["alternative"]
    second = speech.heads(b"", {**chosen, "attention": "encoder", "layer": "1", "head": "2"})
    assert (second["attention"], second["layer"], second["head"]) == ("encoder", 1, 2)
    assert "head 2, encoder self-attention" in second["pictures"][0]["alternative"]
    assert second["pictures"][0]["png"] != first["pictures"][0]["png"]


def test_heads_of_text(translation):
    found = translation.run(b"abc\ndcba", {})
    shown = translation.heads(b"", {"result": found["id"], "segment": "1", "attention": "encoder"})
    assert len(shown["pictures"]) == 2 and shown["attention"] == "encoder"


def test_silence_has_no_text_and_no_heads(speech, tmp_path, monkeypatch):
    monkeypatch.setattr(speech.recognizer, "segmentation", SegmentationOptions(vad="energy"))
    soundfile.write(tmp_path / "silence.wav", np.zeros(16_000), 16_000)
    found = speech.run((tmp_path / "silence.wav").read_bytes(), {})
    assert (found["text"], found["segments"], found["duration"]) == ("", [], 1.0)
    with pytest.raises(ConfigError, match="segment 0 does not exist; the result has 0 segments"):
        speech.heads(b"", {"result": found["id"]})


def test_heads_that_are_not_there(speech, recognised):
    chosen = {"result": recognised["id"]}
    for wrong, message in (
        ({"result": "no"}, "only the last 4 results are kept, and this one is not among them; run it again"),
        ({"segment": "1"}, "segment 1 does not exist; the result has 1 segments"),
        ({"attention": "no"}, "attention 'no' is unknown; known: encoder decoder cross"),
        ({"head": "3"}, "head 3 does not exist; the decoder cross-attention has heads 1 to 2"),
        ({"layer": "x"}, "layer 'x' is not a whole number"),
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
    assert translation.heads(b"", {"result": names[1]})["pictures"]


def test_bodies_that_are_refused(speech, translation, tmp_path):
    soundfile.write(tmp_path / "long.flac", np.zeros(16_000 * 3), 16_000)
    with pytest.raises(DataError, match=r"^long.flac lasts 3.0 seconds; the limit is 2 seconds; cut it, or start"):
        speech.run((tmp_path / "long.flac").read_bytes(), {"name": "long.flac"})
    with pytest.raises(DataError, match=r"^letter.wav: "):
        speech.run(b"Dear friend, " * 99, {"name": "letter.wav"})
    with pytest.raises(DataError, match=r"^the recording: "):
        speech.run(b"", {})
    with pytest.raises(DataError, match="the text has 61 characters; the limit is 60; translate it in parts"):
        translation.run(b"a" * 61, {})
    with pytest.raises(DataError, match="the text is not valid UTF-8"):
        translation.run(b"\xff", {})


def test_nothing_stays_on_disk(speech, recording, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = speech.run(recording.read_bytes(), {})
    speech.heads(b"", {"result": found["id"]})
    with pytest.raises(DataError):
        speech.run(b"no audio", {})
    assert list(tmp_path.iterdir()) == []
