"""The page of `espnet-diverse validate --figures`: histograms of data directories, and the utterances to listen to."""

from collections.abc import Iterable
from heapq import nlargest, nsmallest
from operator import itemgetter
from pathlib import Path

from espnet_diverse.analysis.figures.data_plots import draw_survey
from espnet_diverse.analysis.html_page import Page
from espnet_diverse.data.checks.survey import Survey
from espnet_diverse.scoring.figures.audio_links import AudioLinks

PAGE = "validate.html"
_WORST = 10


def write_survey(surveys: Iterable[tuple[Path, Survey]], folder: Path) -> None:
    """Write the page and its pictures.

    Args:
        surveys: Data directories with what was measured.
        folder: Folder for validate.html and the pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page, path = Page("Data"), folder / PAGE
    for number, (data_dir, survey) in enumerate(surveys, 1):
        page.heading(str(data_dir))
        name = data_dir.resolve().name
        same = [other for other, _ in surveys if other.resolve().name == name]
        pictures = draw_survey(survey, folder, f"{number}.{name}" if len(same) > 1 else name)
        if pictures:
            page.pictures(pictures, _caption(survey), "a second hump, a lone bar far away, a cliff at a round number.")
        audio = AudioLinks(data_dir, path)
        for title, unit, rows in _worst(survey):
            _table(page, title, unit, rows, survey, audio)
    page.write(path)


def _caption(survey: Survey) -> str:
    said = "Counts of lengths are on a logarithmic axis, so that a single long utterance can be seen."
    if survey.levels():
        return f"{said} Levels are those of whole recordings: 0 dBFS is the loudest square wave, speech is near −25."
    return said if survey.seconds else ""


def _worst(survey: Survey) -> Iterable[tuple[str, str, list[tuple[str, str]]]]:
    """Title, heading of the measure, and rows of id and measure, of the longest, the quietest and the clipped ones."""
    measure = itemgetter(1)
    longest = nlargest(_WORST, survey.seconds.items(), key=measure)
    quietest = nsmallest(_WORST, survey.levels().items(), key=measure)
    clipped = nlargest(_WORST, (item for item in survey.clipped().items() if item[1] > 0), key=measure)
    yield "Longest utterances", "seconds", [(name, f"{value:.2f}") for name, value in longest]
    yield "Quietest recordings", "dBFS", [(name, f"{value:.1f}") for name, value in quietest]
    yield "Recordings at full scale", "samples", [(name, f"{value:.2%}") for name, value in clipped]


def _table(page: Page, title: str, unit: str, rows: list[tuple[str, str]], survey: Survey, audio: AudioLinks) -> None:
    if not rows:
        return
    page.subheading(title)
    data = survey.data
    shown = []
    for name, value in rows:
        recording = data.segments[name].recording if name in data.segments else name
        shown.append((name, value, data.text.get(name, ""), data.wav_scp.get(recording, "")))
    page.table(("id", unit, "text", "path"), shown, [audio.of(name) for name, _ in rows])
