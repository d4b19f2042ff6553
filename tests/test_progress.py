"""Progress of long operations on a terminal, and as lines elsewhere."""

import io
import sys

import pytest

from espnet_diverse.progress import WithProgress, progress, timespan


def test_items_pass_through_and_the_last_line_counts_them(capfd):
    assert list(progress(iter("abc"), "train epoch 3", total=4, unit="step")) == ["a", "b", "c"]
    assert capfd.readouterr().err.startswith("train epoch 3: 3/4 steps, ")


def test_the_total_is_the_length_of_the_items(capfd):
    assert list(progress([1, 2], "valid")) == [1, 2]
    assert capfd.readouterr().err.startswith("valid: 2/2 items, ")


def test_items_can_be_read_again(capfd):
    items = WithProgress([1, 2], "stats", unit="step")
    assert [*items, *items] == [1, 2, 1, 2]
    assert [line.partition(",")[0] for line in capfd.readouterr().err.splitlines()] == ["stats: 2/2 steps"] * 2


def test_the_plural_of_a_batch(capfd):
    list(progress([1], "calibration", unit="batch"))
    said = capfd.readouterr().err
    assert said.startswith("calibration: 1/1 batches, ") and " batches/s" in said


def test_a_terminal_shows_a_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO())
    monkeypatch.setattr(shown, "isatty", lambda: True)
    assert list(progress([1, 2], "decode", total=4, unit="step", done=1)) == [1, 2]
    assert "decode:  25%|" in shown.getvalue() and " 1/4 [" in shown.getvalue()


@pytest.mark.parametrize(("every", "lines"), [(0.0, 3), (100.0, 1)])
def test_lines_appear_at_intervals(capfd, every, lines):
    list(progress(iter(range(3)), "decode", every_seconds=every))
    assert len(capfd.readouterr().err.splitlines()) == lines


def test_a_line_says_how_much_is_left_and_the_last_is_printed_once(capfd):
    list(progress(iter(range(2)), "decode", total=2, every_seconds=0.0))
    first, last = capfd.readouterr().err.splitlines()
    assert first.startswith("decode: 1/2 items, ") and first.endswith(" s left")
    assert last.startswith("decode: 2/2 items, ") and not last.endswith("left")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (725, "12 min 05 s"), (11_220, "3 h 07 min")]
)
def test_timespan(seconds, text):
    assert timespan(seconds) == text
