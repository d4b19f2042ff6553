import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import soundfile
from demo.stand_in import TRANSCRIPT
from references.tones import tones

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.demo.task_services import ModelService, answer_of, load_service
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.inference import Recognizer, Translator
from espnet_diverse.serve.limits import Limits
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

BEAM = {"beam_size": "4", "nbest": "3"}


def test_recognition_matches_the_recognizer(recognised, tiny_run, recording):
    options = SearchOptions(beam_size=4, nbest=3, minlenratio=-3, maxlenratio=-6)
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


def test_hotwords_of_a_request_match_the_recognizer(speech, tiny_run, recording):
    chosen = BEAM | {"hotwords": " dd, Жx, ab ,"}
    answer = speech.run(recording.read_bytes(), chosen)
    found = answer["segments"][0]["alternatives"]
    assert answer["left_out"] == ["Жx"]
    options = SearchOptions(beam_size=4, nbest=3, minlenratio=-3, maxlenratio=-6)
    recognizer = Recognizer(tiny_run.model_dir, options=options, segmentation=SegmentationOptions(vad="none"))
    (expected,) = recognizer.transcribe(recording, hotwords=["dd", "ab"]).segments
    texts = [(each.text, pytest.approx(each.score)) for each in expected.alternatives]
    assert [(each["text"], each["score"]) for each in found] == texts
    (plain,) = recognizer.transcribe(recording).segments
    assert texts != [(each.text, pytest.approx(each.score)) for each in plain.alternatives]


def test_files_of_a_result_match_transcribe(recognised, tiny_run, recording, translation):
    options = SearchOptions(beam_size=4, nbest=3, minlenratio=-3, maxlenratio=-6)
    recognizer = Recognizer(tiny_run.model_dir, options=options, segmentation=SegmentationOptions(vad="none"))
    expected = recognizer.transcribe(recording, word_timestamps=True)
    files = recognised["files"]
    assert list(files) == ["srt", "vtt", "txt", "json"] and files["json"] == expected.to_json("test-00")
    assert (files["srt"], files["vtt"]) == (expected.to_srt(), expected.to_vtt()) and files["txt"]
    found = translation.run(b"abc\ndcba", {})
    assert found["files"] == {"txt": found["text"] + "\n"}


def test_texts_that_may_be_invented_are_told():
    told = answer_of(TRANSCRIPT, "a.wav")["segments"]
    assert [(one["ctc_support"], one["may_be_invented"]) for one in told] == [(1.0, False), (0.1, True)]


def test_translation_matches_the_translator(translation, tiny_translation):
    found = translation.run("abc\n\n \u200b\ndc\xadba  \n".encode(), BEAM)  # characters that nobody sees are left out
    options = SearchOptions(beam_size=4, nbest=3, minlenratio=-3, maxlenratio=-6)
    expected = Translator(tiny_translation.model_dir, options=options).translate(["abc", "dcba"])
    assert [segment["source"] for segment in found["segments"]] == ["abc", "dcba"]
    assert [segment["text"] for segment in found["segments"]] == [one.text for one in expected]
    assert found["text"] == "\n".join(one.text for one in expected)
    assert [len(segment["alternatives"]) for segment in found["segments"]] == [3, 3]


def test_recordings_are_brought_to_the_rate_of_the_model(telephone_run, tmp_path):
    service = load_service(telephone_run.model_dir, None, Limits(), SegmentationOptions(vad="none"))
    service.options = replace(service.options, minlenratio=-3.0, maxlenratio=-6.0)
    assert service.about()["rate"] == 8000
    soundfile.write(tmp_path / "x.wav", tones(1.5, 0, rate=44_100), 44_100)
    found = service.run((tmp_path / "x.wav").read_bytes(), {"beam_size": "2"})
    assert found["duration"] == 1.5 and found["segments"][0]["end"] == 1.5 and found["text"]
    assert found["text"] == service.recognizer(tmp_path / "x.wav", options=replace(service.options, beam_size=2)).text
    (kept,) = service.results._kept[found["id"]]
    assert len(kept.source) == 1.5 * 8000
    assert service.heads(b"", {"result": found["id"]})["plots"]


def test_silence_has_no_text_and_no_heads(speech, tmp_path, monkeypatch):
    monkeypatch.setattr(speech.recognizer, "segmentation", SegmentationOptions(vad="energy"))
    soundfile.write(tmp_path / "silence.wav", np.zeros(16_000), 16_000)
    found = speech.run((tmp_path / "silence.wav").read_bytes(), {})
    assert (found["text"], found["segments"], found["duration"]) == ("", [], 1.0)
    with pytest.raises(ConfigError, match="segment 0 does not exist; the result has 0 segments"):
        speech.heads(b"", {"result": found["id"]})


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


def test_about_gives_task_rate_and_limits(speech, translation, tiny_run):
    about = speech.about()
    assert about["name"] == tiny_run.model_dir.name and about["task"] == "asr" and about["conditions"] == []
    assert about["rate"] == 16_000 and translation.about()["rate"] is None
    assert about["description"] == "Speech recognition." and (about["beam_size"], about["nbest"]) == (10, 5)
    assert ".flac" in about["suffixes"]["direct"] and ".m4b" in about["suffixes"]["all"]
    assert about["limits"] == {"seconds": 2.0, "megabytes": 0.5, "characters": 60}
    assert translation.about()["task"] == "mt" and translation.about()["description"] == "Text translation."


def test_about_gives_the_facts_of_the_model_card(speech, translation):
    facts, count = dict(speech.about()["facts"]), speech.search.parameters
    assert count > sum(parameter.numel() for parameter in speech.search.encoding.model.encoder.parameters()) > 0
    assert facts["parameters"] == f"{count / 1e6:.2f} M" and facts["sampling rate"] == "16000 Hz"
    assert facts["encoder attention"] == facts["decoder cross-attention"] == "sdma"
    assert "sampling rate" not in dict(translation.about()["facts"])
    assert not [name for name in facts if name.startswith("scores")]


def test_the_page_is_told_the_scores_of_the_run(speech, scored_run, monkeypatch):
    monkeypatch.setattr(speech.results, "model_dir", scored_run)
    (scored_run / "decode/dev").mkdir()
    (scored_run / "decode/dev/score.json").write_text("{")  # damaged; the others are told
    assert dict(speech.about()["facts"])["scores of decode/test"] == "WER 26.0, CER 9.0"
    (scored_run / "decode/test/decode.json").write_text('{"model_file": "1epoch.pth"}')
    assert "scores of decode/test" not in dict(speech.about()["facts"])


def test_the_options_of_a_request_are_not_kept(speech, tiny_run):
    audio, sizes = (tiny_run.test_dir / "test-00.wav").read_bytes(), ("1", "4") * 4
    with ThreadPoolExecutor(2) as pool:
        chosen = [{"beam_size": size, "nbest": size} for size in sizes]
        found = list(pool.map(lambda choices: speech.run(audio, choices), chosen))
    assert [len(one["segments"][0]["alternatives"]) for one in found] == [int(size) for size in sizes]
    assert speech.search.options.beam_size == 10


def test_one_request_at_a_time_goes_through_the_model(translation):
    class Slow(ModelService):
        running, most = 0, 0

        def _run(self, body, choices, options):
            self.running += 1
            self.most = max(self.most, self.running)
            time.sleep(0.02)
            self.running -= 1
            return {}

    slow = Slow("slow", translation.search, None, Limits())
    threads = [threading.Thread(target=slow.run, args=(b"", {})) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slow.most == 1
