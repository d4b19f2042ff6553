"""Figures of matplotlib as files, with fonts of this machine that have their characters."""

import logging
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from espnet_diverse.data.files.atomic_files import staged_file

log = logging.getLogger(__name__)


def families(characters: Iterable[str]) -> tuple[list[str], set[str]]:
    """Find fonts for characters.

    Returns:
        Families of fonts that together have the characters, matplotlib's default first, and the characters that no font
        has; one warning recommends a font to install for these.
    """
    from matplotlib.font_manager import fontManager

    lacking = {character for character in characters if character.isprintable()}
    # The "Last Resort" font has every character, all as boxes.
    plain = (f for f in fontManager.ttflist if (f.style, f.weight, f.stretch) == ("normal", 400, "normal"))
    fonts = {font.name: font.fname for font in plain if "Last Resort" not in font.name}
    selected = []
    for name in sorted(fonts, key=lambda name: (name != "DejaVu Sans", name)):
        covered = {character for character in lacking if _has(fonts[name], character)}
        if covered or not selected:
            selected.append(name)
        lacking -= covered
        if not lacking:
            break
    if lacking:
        _warn(min(lacking))
    return selected, lacking


@cache
def _warn(character: str) -> None:
    reason = f"no font of this machine has characters such as {character!r} of a figure"
    log.warning("%s: install one, such as Noto Sans CJK", reason)


@cache
def _has(font: str, character: str) -> bool:
    from matplotlib.font_manager import get_font

    return get_font(font).get_char_index(ord(character)) > 0


def save_figure(figure: Any, path: Path, dpi: int = 110) -> None:
    """Write a figure of matplotlib atomically, as `write_text` writes a text.

    A "$" is drawn as it is, because labels are names and tokens of data; only powers of ten are set as mathematics. All
    characters are drawn for which this machine has a font.

    Args:
        figure: The figure.
        path: File to write; its suffix is the format.
        dpi: Pixels per inch.
    """
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    axes = (axis for panel in figure.axes for axis in (panel.xaxis, panel.yaxis))
    scales = [axis for axis in axes if isinstance(axis.get_major_formatter(), LogFormatter)]
    powers = {label for axis in scales for label in axis.get_ticklabels(which="both")}
    texts = figure.findobj(Text)
    fonts, _ = families("".join(text.get_text() for text in texts))
    for text in texts:
        text.set_parse_math(text in powers)
        text.set_fontfamily(fonts)
    with staged_file(path) as partial, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # `families` reports it in one line
        figure.savefig(partial, dpi=dpi)
