"""Histograms of a data directory."""

import numpy as np
from references.figures import assert_readable

from espnet_diverse.analysis.figures.data_plots import draw_survey
from espnet_diverse.audio.libsndfile import AudioInfo
from espnet_diverse.data.checks.plausibility import measure
from espnet_diverse.data.checks.survey import Survey
from espnet_diverse.data.kaldi import DataTables


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


def test_what_is_not_known_is_not_drawn(tmp_path):
    survey = Survey()
    assert draw_survey(survey, tmp_path, "x") == []
    survey.data = DataTables(text={"a": "x"})
    assert [path.name for path in draw_survey(survey, tmp_path, "x")] == ["x.texts.png"]
