"""Axes of tokens and of frames."""

import pytest
from matplotlib.figure import Figure

from espnet_diverse import pictures
from espnet_diverse.analysis.figures.positions import Positions, drawable
from espnet_diverse.decoding.frame_times import FrameTimes


@pytest.fixture
def ascii_fonts(monkeypatch):
    """No font has more than ASCII."""
    monkeypatch.setattr(pictures, "_has", lambda font, character: character.isascii())
    pictures._warn.cache_clear()


def test_tokens_missing_from_all_fonts_are_numbered_with_a_warning(ascii_fonts, caplog):
    tokens = ["你", "好", "a", "<eos>", "。"]
    assert drawable(tokens) == ["#1", "#2", "a", "<eos>", "#5"]
    assert drawable(["<sos>", *tokens]) == ["<sos>", "#1", "#2", "a", "<eos>", "#5"]
    what = "no font of this machine has characters such as '。' of a figure: install one, such as Noto Sans CJK"
    assert caplog.messages == [what]


def test_labels_that_a_font_has_stay():
    assert drawable(["a", "é", "я"]) == ["a", "é", "я"]


def test_token_axes_have_a_label_and_the_tokens_as_ticks(ascii_fonts):
    axes = Figure().subplots()
    Positions(2, ["<sos>", "b"]).describe(axes.xaxis, "key", 7)
    assert (axes.get_xlabel(), [label.get_text() for label in axes.get_xticklabels()]) == (
        *("token read, key", ["<sos>", "b"]),
    )
    assert axes.get_xticklabels()[0].get_fontsize() == 7
    Positions(2, ["你", "<eos>"]).describe(axes.yaxis)
    assert axes.get_ylabel() == "token predicted\n(#n: no font here has token n)"


@pytest.mark.parametrize(
    ("times", "bounds", "name"),
    [(None, (-0.5, 9.5), "encoder frame"), (FrameTimes(0.5, 0.1), (0.45, 1.45), "time (s)")],
)
def test_frames_are_counted_or_have_times(times, bounds, name):
    frames = Positions(10, times=times)
    assert (frames.bounds, frames.name) == (pytest.approx(bounds), name)
    assert Positions(10, list("abcdefghij"), times).bounds == (-0.5, 9.5)
