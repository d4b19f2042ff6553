"""What is measured of a data directory while it is checked."""

import numpy as np
import pytest
import soundfile

from espnet_diverse.data.checks.audio_statistics import SILENCE, Survey
from espnet_diverse.data.checks.validate import find_faults
from espnet_diverse.data.kaldi import DataDir, write_data_dir


@pytest.fixture
def data_dir(tmp_path):
    """A sine at full scale, a quiet one at 8 kHz, silence, and a file that is not there."""
    sine = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    for name, samples, rate in (("a", sine, 16000), ("b", sine[:8000] / 100, 8000), ("c", 0 * sine, 16000)):
        soundfile.write(tmp_path / f"{name}.wav", samples, rate, subtype="FLOAT")
    paths = {name: f"{tmp_path}/{name}.wav" for name in "abcd"}
    write_data_dir(DataDir(paths, dict.fromkeys(paths, "x y"), dict.fromkeys(paths, "s")), tmp_path / "data")
    return tmp_path / "data"


def test_lengths_rates_and_levels_match_the_audio(data_dir):
    survey = Survey()
    find_faults(data_dir, survey=survey)
    assert (survey.rates, dict(survey.seconds.items())) == ({16000: 2, 8000: 1}, {"a": 1.0, "b": 1.0, "c": 1.0})
    assert dict(survey.levels().items()) == pytest.approx({"a": -3.0103, "b": -43.0103, "c": SILENCE}, abs=1e-3)
    assert dict(survey.clipped().items()) == pytest.approx({"a": 80 / 16000, "b": 0.0, "c": 0.0})
    assert dict(survey.data.text.items())["a"] == "x y"


def test_headers_have_no_levels(data_dir):
    survey = Survey()
    find_faults(data_dir, decode=False, survey=survey)
    assert dict(survey.seconds.items()) == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert dict(survey.levels().items()) == dict(survey.clipped().items()) == {}


def test_text_alone_has_texts(tmp_path):
    write_data_dir(DataDir(text={"a": "x"}), tmp_path)
    survey = Survey()
    find_faults(tmp_path, survey=survey)
    assert dict(survey.data.text.items()) == {"a": "x"}
    assert (survey.rates, survey.seconds, survey.levels(), survey.clipped()) == ({}, {}, {}, {})
