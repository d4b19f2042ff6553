"""Figures appear complete or not at all, with their names as they are and fonts that have the characters."""

import warnings
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from espnet_diverse import pictures
from espnet_diverse.pictures import families, save_figure


@pytest.fixture
def two_alphabets(monkeypatch):
    """The default font has ASCII, one other has Cyrillic letters, and none has Chinese characters."""
    monkeypatch.setattr(
        pictures, "_has", lambda font, one: one.isascii() if font.endswith("/DejaVuSans.ttf") else "а" <= one <= "я"
    )
    pictures._warn.cache_clear()


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


def test_a_figure_appears_complete_or_not_at_all(tmp_path):
    class Broken(Figure):
        def savefig(self, path, dpi):
            path.write_text(f"half of {dpi}")
            raise KeyError

    (tmp_path / "a.png").write_text("before")
    with pytest.raises(KeyError):
        save_figure(Broken(), tmp_path / "a.png")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]


def test_names_in_figures_are_no_mathematics(tmp_path):
    figure = Figure()
    above, below = figure.subplots(2, 1, sharex=True)
    above.set_xticks([0, 1], ["$a_1$", r"\frac$ of $5"])
    above.plot([0, 1], [1, 100], label="$^{$")
    above.set_yscale("log")
    above.legend()
    figure.suptitle("$_$ costs $")
    save_figure(figure, tmp_path / "a.png")
    names = [*below.get_xticklabels(), *above.get_legend().get_texts(), figure._suptitle]
    assert [text.get_text() for text in names] == ["$a_1$", r"\frac$ of $5", "$^{$", "$_$ costs $"]
    assert not any(text.get_parse_math() for text in names)
    powers = [text for text in above.get_yticklabels() if text.get_text()]
    assert powers and all("10^{" in text.get_text() and text.get_parse_math() for text in powers)


def test_figures_are_saved_in_no_other_way():
    package = Path(pictures.__file__).parent
    assert {path.name for path in package.rglob("*.py") if ".savefig(" in path.read_text("utf-8")} == {"pictures.py"}
