"""The page of histograms, and the list of recordings to listen to."""

import re

import numpy as np
import pytest
from references.figures import assert_readable, leave_pictures_empty

from espnet_diverse.analysis.data_page import draw_survey, write_survey
from espnet_diverse.audio.libsndfile import AudioInfo
from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.checks.audio_statistics import Survey
from espnet_diverse.data.checks.plausibility import measure
from espnet_diverse.data.checks.validate import find_faults
from espnet_diverse.data.kaldi import DataDir, DataTables, write_data_dir


@pytest.fixture
def survey_of(tmp_path, write_wav, monkeypatch):
    """survey_of(folder, seconds by utterance) -> its data directory, with a recording each, and its survey."""
    leave_pictures_empty(monkeypatch)

    def make(folder, seconds, **tables):
        paths = {name: str(write_wav(tmp_path / "audio" / f"{name}.wav", length)) for name, length in seconds.items()}
        texts = dict.fromkeys(tables.get("segments", paths), "<b>text</b>")
        write_data_dir(DataDir(paths, texts, **tables), tmp_path / folder)
        survey = Survey()
        find_faults(tmp_path / folder, survey=survey)
        return tmp_path / folder, survey

    return make


def test_the_longest_and_the_quietest_are_listed_with_their_paths(survey_of, tmp_path):
    seconds = {f"u{number:02d}": 1 + number / 10 for number in range(12)}
    write_survey([survey_of("a/test", seconds)], tmp_path / "out")
    page = (tmp_path / "out/validate.html").read_text(encoding="utf-8")
    longest, quietest = page.split("<h3>")[1:3]
    assert longest.startswith("Longest utterances") and quietest.startswith("Quietest recordings")
    assert re.findall("<tr><td>(u[0-9]+)", longest) == [f"u{number:02d}" for number in range(11, 1, -1)]
    assert '<td><audio controls preload="none" src="../audio/u11.wav"></audio></td><td>2.10</td>' in longest
    assert f'<td class="words">&lt;b&gt;text&lt;/b&gt;</td><td class="text">{tmp_path}/audio/u11.wav</td>' in longest


def test_sets_of_one_name_have_pictures_of_their_own(survey_of, tmp_path):
    sets = [survey_of(folder, {folder[0]: 1.0}) for folder in ("a/test", "b/test", "c/dev")]
    write_survey(sets, tmp_path / "out")
    pictures = {path.name.rpartition(".rates")[0] for path in (tmp_path / "out").glob("*.rates.png")}
    assert pictures == {"1.test", "2.test", "dev"}
    assert (tmp_path / "out/validate.html").read_text(encoding="utf-8").count("<h2") == 3


def test_parts_of_a_recording_are_heard_alone(survey_of, tmp_path):
    segments = {"u1": Segment("r", 0.5, 1.0), "u2": Segment("r", 1.0, 2.5)}
    write_survey([survey_of("set", {"r": 3.0}, segments=segments)], tmp_path / "out")
    page = (tmp_path / "out/validate.html").read_text(encoding="utf-8")
    assert 'src="../audio/r.wav#t=1,2.5"' in page and 'src="../audio/r.wav"' in page


def surveyed(count):
    names = [f"u{number:05d}" for number in range(count)]
    survey = Survey()
    survey.seconds = {name: 1.0 + number % 7 for number, name in enumerate(names)} | {names[0]: 1500.0}
    speakers = {name: f"s{number % 9 * number % 5}" for number, name in enumerate(names)}
    survey.data = DataTables(
        dict.fromkeys(names, "a.wav"), {name: "a b" * (n % 9) for n, name in enumerate(names)}, speakers
    )
    for number in range(count):
        rate = 8000 if number % 50 == 0 else 16000
        samples = np.full(100, 10 ** (-(number % 30) / 20), np.float32)
        survey.add(AudioInfo(rate, 1, rate, "WAV", "PCM_16"), measure([samples]))
    return survey


def test_each_picture_is_readable(drawn, tmp_path):
    paths = draw_survey(surveyed(2000), tmp_path, "train")
    assert [path.name for path in paths] == [
        f"train.{kind}.png" for kind in ("seconds", "rates", "levels", "speakers", "texts")
    ]
    titles = [figure.axes[0].get_title() for figure in drawn]
    assert titles[0] == "2,000 utterances, 2.64 h, median 4 s" and titles[1] == "2 sampling rates"
    for figure in drawn:
        assert figure.axes[0].get_xlabel()
        assert_readable(figure)


def test_histograms_without_data_are_not_drawn(tmp_path):
    survey = Survey()
    assert draw_survey(survey, tmp_path, "x") == []
    survey.data = DataTables(text={"a": "x"})
    assert [path.name for path in draw_survey(survey, tmp_path, "x")] == ["x.texts.png"]
