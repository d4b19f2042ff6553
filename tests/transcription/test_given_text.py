"""Times of a known text: equal to word times of the same text, in three formats; and refused inputs."""

import json
import re

import numpy as np
import pytest
from references.tones import tones

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.inference import Recognizer, SegmentationOptions
from espnet_diverse.transcription.given_text import AlignedText, align_text, as_ctm, as_json, as_textgrid
from espnet_diverse.transcription.result import Word

RATE = 16_000
FOUND = AlignedText(
    'ab "c"',
    2.0,
    (Word("ab", 0.25, 0.75, 0.5), Word('"c"', 1.0, 1.5, 0.9)),
    (Word("a", 0.25, 0.5, 0.4), Word("b", 0.5, 0.75, 0.6), Word("c", 1.0, 1.5, 0.9)),
)


@pytest.fixture(scope="module")
def recognizer(tiny_run):
    return Recognizer(tiny_run.model_dir, options={"beam_size": 2}, segmentation=SegmentationOptions(vad="none"))


def test_times_match_the_text_that_was_recognised(recognizer):
    samples = tones(2, seed=3)
    (segment,) = recognizer(samples, RATE, word_timestamps=True).segments
    found = align_text(recognizer.search, samples, segment.text, RATE)
    assert found.words == segment.words and found.text == segment.text and found.duration == 2.0
    assert "".join(one.text for one in found.tokens) == segment.text.replace(" ", "")
    assert [one.confidence for one in found.tokens] == pytest.approx(
        [sure for sure, token in zip(segment.confidences, segment.tokens, strict=True) if token != "<space>"]
    )
    for one, after in zip(found.tokens, found.tokens[1:], strict=False):
        assert 0 <= one.start < one.end <= after.start + 1e-9 and after.end <= 2.0


def test_another_text_has_other_times_and_less_confidence(recognizer):
    samples = tones(2, seed=3)
    text = recognizer(samples, RATE).text
    right, wrong = (align_text(recognizer.search, samples, one, RATE) for one in (text, "a" * len(text)))
    assert [one.start for one in wrong.tokens] != [one.start for one in right.tokens]
    assert np.mean([one.confidence for one in wrong.tokens]) < np.mean([one.confidence for one in right.tokens])


@pytest.mark.parametrize(
    ("text", "seconds", "said"),
    [
        (" ", 1, "the text to align is empty"),
        (None, 1, "the text to align is a NoneType; give the spoken text as str"),
        ("aЖbЯЖ", 1, "the model's vocabulary lacks 'Ж', 'Я'; write the text as the training text"),
        ("ab" * 200, 1, "audio array: 400 tokens do not fit into its 1.000 s; check the text"),
        ("a", 0.01, "audio array: is too short for the model"),
        ("a", 121, "audio array: lasts 121 s; at most 120 s are aligned at once: cut it"),
    ],
)
def test_unalignable_text_and_audio_are_refused(recognizer, text, seconds, said):
    with pytest.raises(DataError, match=said):
        align_text(recognizer.search, np.zeros(int(seconds * RATE), np.float32), text, RATE)


def test_a_recording_of_which_resampling_leaves_nothing_is_refused(recognizer):
    with pytest.raises(DataError, match="audio array: has 0 samples at 16000 Hz; give a recording with at least 1"):
        align_text(recognizer.search, np.zeros(1, np.float32), "a", 48_000)


def test_without_ctc_there_are_no_times(recognizer, monkeypatch):
    monkeypatch.setattr(recognizer.search, "ctc", None)
    with pytest.raises(ConfigError, match="times of words need CTC that was trained on the output text"):
        align_text(recognizer.search, tones(1, seed=0), "a", RATE)


def test_formats():
    content = json.loads(as_json(FOUND, "talk"))
    assert content["words"][1] == {"word": '"c"', "start": 1.0, "end": 1.5, "probability": 0.9}
    assert (content["name"], content["text"], len(content["tokens"])) == ("talk", FOUND.text, 3)
    assert as_ctm(FOUND, "talk") == 'talk 1 0.250 0.500 ab 0.5000\ntalk 1 1.000 0.500 "c" 0.9000\n'
    assert as_ctm(FOUND, "my talk").startswith("my_talk 1 0.250 0.500 ab ")
    grid = as_textgrid(FOUND, "talk")
    texts = re.findall(r'text = "(.*)"', grid)
    assert texts == ["", "ab", "", '""c""', "", "", "a", "b", "", "c", ""]
    bounds = re.findall(r"intervals \[\d+\]:\n +xmin = (.*)\n +xmax = (.*)", grid)
    assert [start for start, _ in bounds[1:5]] == [end for _, end in bounds[:4]] and bounds[4][1] == "2.000000"
    assert 'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0.000000\nxmax = 2.000000\n' in grid


def test_intervals_cover_the_recording_and_hold_every_token():
    """Of a token without frames, and of one that ends after the recording by rounding."""
    tokens = Word("a", 0.0, 0.02, 0.5), Word("b", 0.0, 0.5, 0.5), Word("c", 0.5, 0.5, 0.5), Word("d", 1.5, 2.001, 0.5)
    aligned = AlignedText("ab cd", 2.0, (Word("ab", 0.0, 0.5, 0.5), Word("cd", 0.48, 2.001, 0.5)), tokens)
    grid = as_textgrid(aligned, "talk")
    assert re.findall(r'text = "(.*)"', grid) == ["ab", "cd", "a", "b c", "", "d"]
    for tier in grid.split('class = "IntervalTier"')[1:]:
        bounds = re.findall(r"intervals \[\d+\]:\n +xmin = (.*)\n +xmax = (.*)", tier)
        assert [start for start, _ in bounds] == ["0.000000", *(end for _, end in bounds[:-1])]
        assert bounds[-1][1] == "2.000000"


def test_the_command(tiny_run, tmp_path, capsys):
    audio = str(tiny_run.test_dir / "test-00.wav")
    assert main(["align", str(tiny_run.model_dir), audio, "--text", "ab"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["name"] == "test-00" and [one["token"] for one in content["tokens"]] == ["a", "b"]
    (tmp_path / "said.txt").write_text("ab\n")
    options = ["--text_file", str(tmp_path / "said.txt"), "--output", str(tmp_path / "a.TextGrid")]
    assert main(["align", str(tiny_run.model_dir), audio, *options, "--output_format", "textgrid"]) == 0
    assert (tmp_path / "a.TextGrid").read_text().startswith('File type = "ooTextFile"')
    assert main(["align", str(tiny_run.model_dir), audio, *options[:2], "--output", audio]) == 1
    assert f"error: {audio}: is the file to read" in capsys.readouterr().err
