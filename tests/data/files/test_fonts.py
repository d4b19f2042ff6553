"""Fonts that have the characters of a figure."""

import warnings

import pytest
from matplotlib.figure import Figure

from espnet_diverse.data.files import fonts
from espnet_diverse.data.files.atomic_files import save_figure
from espnet_diverse.data.files.fonts import families


@pytest.fixture
def two_alphabets(monkeypatch):
    """The default font has ASCII, one other has Cyrillic letters, and none has Chinese characters."""
    monkeypatch.setattr(
        fonts, "_has", lambda font, one: one.isascii() if font.endswith("/DejaVuSans.ttf") else "а" <= one <= "я"
    )
    fonts._warn.cache_clear()


def test_missing_characters_come_from_a_second_font(two_alphabets, caplog):
    assert families("ab\n") == (["DejaVu Sans"], set())
    (first, second), lacking = families("abяб")
    assert first == "DejaVu Sans" != second and not lacking and not caplog.messages
    assert families("aя你好")[1] == families("你")[1] | {"好"} == {"你", "好"}
    said = "no font of this machine has characters such as '你' of a figure: install one, such as Noto Sans CJK"
    assert caplog.messages == [said]


def test_a_name_of_a_figure_is_drawn_with_a_font_that_has_it(two_alphabets, tmp_path, caplog):
    figure = Figure()
    title = figure.suptitle("яблоко 你")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(figure, tmp_path / "a.png")
    assert title.get_fontfamily() == families("a я")[0] and len(caplog.messages) == 1
