"""Recordings that are not split: what is refused, and that nothing is cut."""

import numpy as np
import pytest
import soundfile
from references.tones import tones

from espnet_diverse.attention import parts
from espnet_diverse.bin.main import main
from espnet_diverse.decoding.encoder import long_audio
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.inference import Recognizer, Request, SegmentationOptions
from espnet_diverse.transcription import unsegmented

RATE = 16_000
WHOLE = SegmentationOptions(whole=True)


@pytest.fixture(scope="module")
def recognizer(tiny_run):
    return Recognizer(tiny_run.model_dir, options=SearchOptions(beam_size=2, maxlenratio=0.3), segmentation=WHOLE)


@pytest.fixture
def linear(monkeypatch, recognizer):
    """The model of the tests has SDMA, which is not of linear cost."""
    monkeypatch.setattr(type(recognizer.search.encoding), "is_linear", True)


def by_ctc(recognizer, samples):
    """What greedy search gives for the whole recording, at once."""
    search = recognizer.search
    return search.find_long(search.features(samples), {}).texts[0].text


def test_a_long_recording_is_one_segment_decoded_by_ctc(recognizer, linear, monkeypatch):
    samples = tones(130, seed=0)
    expected = by_ctc(recognizer, samples)
    monkeypatch.setattr(parts, "PART", 64)
    monkeypatch.setattr(long_audio, "_SAMPLES", 100_000)
    told = []
    found, short = recognizer.transcribe_all(
        [Request(samples, RATE, on_progress=lambda *seconds: told.append(seconds)), Request(tones(2, seed=1), RATE)]
    )
    (segment,) = found.segments
    assert (segment.start, segment.end) == (0.0, 130.0) and told[-1] == (130.0, 130.0)
    assert found.text == expected and len(found.text) > 20
    assert [(one.start, one.end) for one in short.segments] == [(0.0, 2.0)]


def test_a_short_recording_is_searched_as_before(recognizer, tiny_run):
    options, loud = SearchOptions(beam_size=2, maxlenratio=0.3), SegmentationOptions(vad="energy")
    split = Recognizer(tiny_run.model_dir, options=options, segmentation=loud)
    path = tiny_run.test_dir / "test-00.wav"
    assert repr(recognizer(path)) == repr(split(path))
    silence = recognizer(np.zeros(3 * RATE, np.float32), RATE)
    assert len(silence.segments) == 1  # there is no detector that would leave it out


def test_recordings_too_long_for_the_encoder_are_named(recognizer, monkeypatch):
    monkeypatch.setattr(unsegmented, "_QUADRATIC_SECONDS", 25)
    assert recognizer(tones(24, seed=0), RATE).segments
    with pytest.raises(DataError, match="audio array: 26 s are too long without segmentation: at most 25 s .*; leave"):
        recognizer(tones(26, seed=0), RATE)


def test_a_model_without_ctc_is_refused(recognizer, monkeypatch):
    monkeypatch.setattr(recognizer.search, "ctc", None)
    with pytest.raises(ConfigError, match=r"whole \(--no_segmentation\) is not possible: it decodes by CTC, which"):
        recognizer(tones(1, seed=0), RATE)
    with pytest.raises(ConfigError, match="long audio is decoded by CTC, and the model was trained without it; use"):
        recognizer.search.find_long(np.zeros((9, 20), np.float32), {})


def test_words_without_segments_have_no_times(recognizer):
    with pytest.raises(ConfigError, match=r"word_timestamps is not possible with whole \(--no_segm.*; leave out one"):
        recognizer(tones(1, seed=0), RATE, word_timestamps=True)


def test_the_beginning_tells_the_language(recognizer, linear, monkeypatch):
    from espnet_diverse.decoding.condition_ids import KnownConditions
    from espnet_diverse.transcription import recordings

    heard = []
    names = {"lang": ["ar", "de"], "tgtlang": ["ar", "de"]}
    monkeypatch.setattr(recognizer.search, "conditions", KnownConditions(names))

    def identify_language(search, features, conditions, options):
        heard.extend(len(each) for each in features)
        return {"de": 0.9, "ar": 0.1}

    monkeypatch.setattr(recordings, "identify_language", identify_language)
    found = recognizer(tones(60, seed=0), RATE)
    assert found.conditions["lang"] == "de" and heard == [3001]


def test_how_long_recordings_are_decoded_is_said_once(recognizer, caplog):
    unsegmented._warn.cache_clear()
    for seed in range(2):
        recognizer(tones(1, seed), RATE, domain="news")
    said = "no segmentation: recordings longer than 20 s are decoded by greedy CTC alone"
    effect = "--domain news has no effect: no part of this model depends on the domain"
    assert sorted(caplog.messages) == [effect, said]


def test_the_command_says_how_it_decodes(tiny_run, recognizer, tmp_path, caplog, capsys):
    samples = tones(25, seed=0)
    soundfile.write(tmp_path / "long.wav", samples, RATE, subtype="FLOAT")
    call = ["transcribe", "--no_segmentation", str(tiny_run.model_dir), str(tmp_path / "long.wav")]
    unsegmented._warn.cache_clear()
    assert main(call) == 0
    said = "no segmentation: recordings longer than 20 s are decoded by greedy CTC alone"
    assert [record.getMessage() for record in caplog.records].count(said) == 1
    assert capsys.readouterr().out == f"{by_ctc(recognizer, samples)}\n"
    caplog.clear()
    assert main([*call, "--search", "greedy"]) == 0 and said not in caplog.text
    assert main([*call, "--vad", "energy"]) == 1
    assert "vad energy cannot be combined with whole (--no_segmentation)" in capsys.readouterr().err
