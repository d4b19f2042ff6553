"""Fonts of this machine that have the characters of a figure."""

import logging
from collections.abc import Iterable
from functools import cache

from matplotlib.font_manager import fontManager, get_font


def families(characters: Iterable[str]) -> tuple[list[str], set[str]]:
    """Find fonts for characters.

    Returns:
        Families of fonts that together have the characters, matplotlib's default first, and the characters that no font
        has; one warning recommends a font to install for these.
    """
    lacking = {character for character in characters if character.isprintable()}
    # The "Last Resort" font has every character, all as boxes.
    plain = (f for f in fontManager.ttflist if (f.style, f.weight, f.stretch) == ("normal", 400, "normal"))
    fonts = {font.name: font.fname for font in plain if "Last Resort" not in font.name}
    found = []
    for name in sorted(fonts, key=lambda name: (name != "DejaVu Sans", name)):
        there = {character for character in lacking if _has(fonts[name], character)}
        if there or not found:
            found.append(name)
        lacking -= there
        if not lacking:
            break
    if lacking:
        _warn(min(lacking))
    return found, lacking


@cache
def _warn(character: str) -> None:
    what = f"no font of this machine has characters such as {character!r} of a figure"
    logging.warning("%s: install one, such as Noto Sans CJK", what)


@cache
def _has(font: str, character: str) -> bool:
    return get_font(font).get_char_index(ord(character)) > 0
