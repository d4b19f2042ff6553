"""The page of `espnet-diverse validate --figures`: histograms of data directories, and the utterances to listen to."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest, nsmallest
from operator import itemgetter
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from espnet_diverse.analysis.html_page import Page
from espnet_diverse.data.checks.audio_statistics import Survey
from espnet_diverse.pictures import save_figure
from espnet_diverse.scoring.figures.audio_links import AudioLinks
from espnet_diverse.scoring.figures.forest_plot import DPI, WIDTH

PAGE = "validate.html"
_WORST = 10
_BINS = 50


def write_survey(surveys: Sequence[tuple[Path, Survey]], folder: Path) -> None:
    """Write the page and its pictures.

    Args:
        surveys: Data directories with their measurements.
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
    message = "Counts of lengths are on a logarithmic axis, so that a single long utterance can be seen."
    if survey.levels():
        return f"{message} Levels are of whole recordings: 0 dBFS is the loudest square wave, speech is near −25."
    return message if survey.seconds else ""


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


def draw_survey(survey: Survey, folder: Path, name: str) -> list[Path]:
    """Write `folder`/`name`.*.png, a picture for each measure that is known.

    Args:
        survey: The measurements.
        folder: Folder of the pictures.
        name: First part of the names of the pictures.

    Returns:
        Paths of the pictures.
    """
    texts = [sum(map(len, text.split())) for text in survey.data.text.values()]
    spoken = survey.data.by_utterance()
    speakers = Counter(speaker for utterance, speaker in survey.data.utt2spk.items() if utterance in spoken)
    plots: dict[str, tuple[Sequence[float], Callable[[Axes, Sequence[float]], None]]] = {
        "seconds": (list(survey.seconds.values()), _seconds),
        "rates": (list(survey.rates), lambda axes, rates: _rates(axes, survey)),
        "levels": (list(survey.levels().values()), _levels),
        "speakers": (sorted(speakers.values(), reverse=True), _speakers),
        "texts": (texts, _texts),
    }
    paths = []
    for kind, (values, draw) in plots.items():
        if values:
            figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
            axes = figure.subplots()
            draw(axes, values)
            axes.grid(alpha=0.3)
            paths.append(folder / f"{name}.{kind}.png")
            save_figure(figure, paths[-1], DPI)
    return paths


def _seconds(axes: Axes, values: Sequence[float]) -> None:
    hours = sum(values) / 3600
    total = f"{len(values):,} utterances, {hours:,.{2 if hours < 10 else 0}f} h"
    axes.set_title(f"{total}, {_middle(values, 's')}", fontsize=10)
    _histogram(axes, values, "length (s)")


def _texts(axes: Axes, values: Sequence[float]) -> None:
    axes.set_title(f"{len(values):,} texts, {_middle(values, 'characters')}", fontsize=10)
    _histogram(axes, values, "length of the text (characters without spaces)")


def _histogram(axes: Axes, values: Sequence[float], label: str) -> None:
    """A histogram with a logarithmic axis of counts, on which a single long item can be seen."""
    axes.hist(values, bins=min(_BINS, max(10, len(values) // 4)), log=True, color="C0")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0.7)
    axes.set(xlabel=label, ylabel="utterances")


def _levels(axes: Axes, values: Sequence[float]) -> None:
    axes.hist(values, bins=np.arange(np.floor(min(values)), max(values) + 1.5), color="C0")
    axes.set_title(f"{len(values):,} recordings, {_middle(values, 'dBFS')}", fontsize=10)
    axes.set(xlabel="level, root mean square (dBFS)", ylabel="recordings")
    axes.yaxis.get_major_locator().set_params(integer=True)


def _rates(axes: Axes, survey: Survey) -> None:
    rates = sorted(survey.rates)
    bars = axes.barh(range(len(rates)), [survey.rates[rate] for rate in rates], height=0.6, color="C0")
    axes.bar_label(bars, [f"{survey.rates[rate]:,}" for rate in rates], padding=3, fontsize=9)
    axes.set_yticks(range(len(rates)), [f"{rate:,} Hz" for rate in rates])
    axes.set_ylim(-0.8, len(rates) - 0.2)
    axes.margins(x=0.18)
    axes.set_title(f"{len(rates)} sampling rate{'s' * (len(rates) > 1)}", fontsize=10)
    axes.set_xlabel("recordings")
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)


def _speakers(axes: Axes, values: Sequence[float]) -> None:
    axes.fill_between(np.arange(len(values) + 1) + 0.5, [*values, values[-1]], step="post", color="C0")
    axes.set_title(f"{len(values):,} speaker{'s' * (len(values) > 1)}, {_middle(values, 'utterances')}", fontsize=10)
    axes.set(xlabel="speakers, sorted", ylabel="utterances")
    axes.set_xlim(0.5, len(values) + 0.5)
    axes.set_ylim(bottom=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)


def _middle(values: Sequence[float], unit: str) -> str:
    return f"median {np.median(values):.3g} {unit}".replace("-", "−")
