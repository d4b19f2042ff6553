"""Checks of an utterance for training: its samples, its length and its text.

Each fault has a kind; `faults.ACTIONS` has the action for it.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.data.checks.limits import Limits

CANCELLED = "its channels cancel in their mean; write one of them alone, or name one in the fifth column of segments"
"""Message about channels of opposite phase, whose mean is nearly silent."""
CHARACTERS_A_SECOND = 40
"""More than anybody speaks in any script, spaces not counted; twice the rate of fast speakers of English."""
_QUIET = 2e-4  # between the least and the greatest sample: 80 dB below full scale
_OFFSET = 0.1
_ROUNDING = 1e-6  # of the times in segments, in seconds
_FULL = 1 - 1.5 * 2**-15  # the last step of 16 bits
_CLIPPED_SHARE = 0.02  # for a sine at full scale the share is 0.6 %
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_FORMS = ("<wide>", "<narrow>", "<font>", "<isolated>", "<initial>", "<medial>", "<final>")
"""Unicode's tags for letters that are another form of a letter."""
_LIGATURES = range(0xFB00, 0xFB18)
_WORD = re.compile(r"[\w\ufffd]")  # U+FFFD: bytes that are not utf-8, reported as a fault of the table


class Finding(NamedTuple):
    """A fault of an utterance: its kind, a key of `faults.ACTIONS`, and a description."""

    kind: str
    what: str


class Measures(NamedTuple):
    """Measures of samples: number, least, greatest, mean, mean square, the share that is clipped, and a digest."""

    count: int
    low: float
    high: float
    mean: float
    power: float
    clipped: float
    digest: bytes


def measure(blocks: Iterable[NDArray]) -> Measures:
    """Measure samples, given in blocks (L,) float32; a block at a time is in memory."""
    count, total, squares, clipped = 0, 0.0, 0.0, 0
    low, high = inf, -inf
    digest = hashlib.blake2b(digest_size=16)
    for block in blocks:
        if len(block):
            digest.update(np.ascontiguousarray(block).data)
            low, high = min(low, float(block.min())), max(high, float(block.max()))
            total += float(block.sum(dtype=np.float64))
            squares += float(np.dot(block, block))
            clipped += int(np.count_nonzero(np.abs(block) >= _FULL))
            count += len(block)
    mean, power, share = (value / max(count, 1) for value in (total, squares, clipped))
    return Measures(count, low, high, mean, power, share, digest.digest())


def sound_findings(measures: Measures) -> Iterator[Finding]:
    """Faults of samples: only silence, an offset, or clipping."""
    if measures.high - measures.low < _QUIET:
        yield Finding("silent", f"is silent: all samples lie between {measures.low:.4f} and {measures.high:.4f}")
    elif abs(measures.mean) > _OFFSET:
        yield Finding("offset", f"its samples have a mean of {measures.mean:.2f}, and 0 is expected; remove the offset")
    elif measures.clipped > _CLIPPED_SHARE:
        yield Finding(
            "clipped", f"is clipped: {measures.clipped:.0%} of its samples are at full scale; get the original"
        )


def length_findings(seconds: float, limits: Limits) -> Iterator[Finding]:
    """Faults of the length of an utterance: too short or too long."""
    if seconds < limits.min_seconds - _ROUNDING:
        yield Finding("short", f"is {seconds:.3f} s long; at least {limits.min_seconds:g} s are expected")
    if seconds > limits.max_seconds:
        yield Finding("long", f"is {seconds:.1f} s long; at most {limits.max_seconds:g} s are expected; cut it")


def text_findings(text: str, seconds: float | None, limits: Limits) -> Iterator[Finding]:
    """Faults of a transcript; `seconds` is None for text without audio."""
    entity = _ENTITY.search(text)
    if entity:
        yield Finding("entity", f"the transcript has the HTML entity {entity[0]}; write the character itself")
    if symbol := _compatibility_character(text):
        plain = unicodedata.normalize("NFKC", symbol)
        reason = f"the transcript has the compatibility character {symbol!r} (U+{ord(symbol):04X}), {plain!r} in NFKC"
        yield Finding("compatibility", f"{reason}; it is a token of its own: write plain letters, fractions in words")
    if seconds is None:
        return
    if not _WORD.search(text):
        yield Finding("wordless", "the transcript has no letter or digit")
        return
    characters = sum(map(len, text.split()))
    if characters > CHARACTERS_A_SECOND * seconds + 1:
        reason = f"the transcript has {characters} characters for {seconds:.2f} s of audio"
        yield Finding("crowded", f"{reason}; at most {CHARACTERS_A_SECOND} a second are expected")
    elif limits.tokens is not None:
        tokens = limits.tokens(text)
        needed = len(tokens) + sum(first == second for first, second in zip(tokens, tokens[1:], strict=False))
        frames = int(limits.frames * seconds)
        if needed > frames:
            yield Finding("crowded", f"the transcript needs {needed} frames for CTC, and the audio has {frames}")


def _compatibility_character(text: str) -> str:
    """The first ligature, full-width letter, fraction, or other letter or digit that NFKC replaces; "" for none."""
    if text.isascii() or unicodedata.is_normalized("NFKC", text):
        return ""
    return next(filter(_is_other_form, text), "")


def _is_other_form(character: str) -> bool:
    """Return whether a character is a number or letter in another form; not a Thai vowel, º or ĳ, which are common."""
    category, tag = unicodedata.category(character)[0], unicodedata.decomposition(character).partition(" ")[0]
    return (
        category == "N" and tag.startswith("<") or category == "L" and (tag in _FORMS or ord(character) in _LIGATURES)
    )
