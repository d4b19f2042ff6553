"""Text as error rates are counted: lower case, no punctuation.

The head-selection paper counts word errors with fairseq's WER options `--wer-tokenizer 13a --wer-lowercase
--wer-remove-punct`: punctuation is parted from words and removed, apostrophes and hyphens inside words and points and
commas inside numbers stay. `for_wer` does so for every script; 13a parts ASCII marks only and leaves the inverted
marks, guillemets, dashes and ellipses of the languages at hand, which are removed here, as are symbols (= € ♪) and
apostrophes and hyphens at the edges of words.
"""

import re
import unicodedata

from espnet_diverse.data.characters import mend

# Languages whose capital of "i" has a dot.
DOTTED_I = frozenset({"tr", "az"})
_APOSTROPHES = str.maketrans("\u2019\uff07\u2010\u2011", "''--")
_NOTES = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_IN_NUMBERS, _IN_WORDS = frozenset(".,\u066b\u066c"), frozenset("'-")


def for_wer(text: str, language: str = "") -> str:
    """Bring a transcript to the form in which word errors are counted; doing so twice changes nothing more.

    Args:
        text: The transcript as it is written.
        language: Its language code; Turkish and Azerbaijani have lower-case letters of their own.

    Returns:
        Lower case, in composed form (NFC). Marks (Unicode categories P and S) are gone, but for ' and - between
        letters or digits and . and , between digits; words are parted by one space.
    """
    text, _ = mend(text)
    text = text.translate(_APOSTROPHES)
    kept = (mark if _stays(text, place) else " " for place, mark in enumerate(text))
    words = " ".join("".join(kept).split())
    if language.partition("-")[0] in DOTTED_I:
        words = words.replace("I", "ı").replace("İ", "i")
    return unicodedata.normalize("NFC", words.lower())


def without_notes(text: str) -> str:
    """Take out what transcribers note in brackets, such as (Applause) or [Music]."""
    return " ".join(_NOTES.sub(" ", text).split())


def _stays(text: str, place: int) -> bool:
    """Whether the character at `place` is no mark, or one inside a word or number."""
    mark = text[place]
    if unicodedata.category(mark)[0] not in "PS":
        return True
    around = text[place - 1 : place] + text[place + 1 : place + 2]
    if len(around) < 2:
        return False
    if mark in _IN_NUMBERS:
        return around.isdecimal()
    return mark in _IN_WORDS and all(unicodedata.category(letter)[0] in "LMN" for letter in around)
