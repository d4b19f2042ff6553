"""Text normalisation for word error rates: lower case, no punctuation.

The head-selection paper computes WER with fairseq's options `--wer-tokenizer 13a --wer-lowercase --wer-remove-punct`:
punctuation is removed, but not apostrophes and hyphens inside words nor points and commas inside numbers. 13a splits
off ASCII punctuation only. `for_wer` removes punctuation of every script, among it inverted marks, guillemets, dashes
and ellipses, as well as symbols (= € ♪) and apostrophes and hyphens at the edges of words.
"""

import html
import logging
import re
import unicodedata
from functools import cache

from espnet_diverse.conditions import base_language
from espnet_diverse.data.characters import clean_text

# Languages in which the capital of "i" has a dot.
DOTTED_I = frozenset({"tr", "az"})
GLYPH_VARIANTS = dict.fromkeys([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
"""Selectors of a variant of a glyph, such as of an emoji, for `str.translate`."""
VOCALISATION = re.compile(
    "[\u0610-\u061a\u0640\u064b-\u0652\u0656-\u0658\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"  # Arabic
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]"  # Hebrew
)
"""Signs that readers add: short vowels, doubling and reading marks of Arabic, its tatweel, and points of Hebrew."""
_SPELLED: dict[int, str | int | None] = {
    **dict.fromkeys(map(ord, "\u2018\u2019\uff07`\u00b4\u2032"), "'"),
    **dict.fromkeys(map(ord, "\u2010\u2011"), "-"),
    **{code: code - 0xFEE0 for code in range(0xFF10, 0xFF5B) if chr(code).isalnum()},  # of full width
    **{code: unicodedata.normalize("NFKC", chr(code)) for code in (*range(0xFF66, 0xFFA0), *range(0xFB00, 0xFB07))},
    **GLYPH_VARIANTS,
    **dict.fromkeys([*range(0x20DD, 0x20E1), *range(0x20E2, 0x20E5), *range(0xA670, 0xA673), 0x488, 0x489, 0x1ABE]),
}
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_STYLE = re.compile(r"</?(?:i|b|u|em|strong|font|span|c|v|lang|ruby|rt)\b[^<>]*>", re.IGNORECASE)
_NOTES = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_IN_NUMBERS, _IN_WORDS = frozenset(".,\u066b\u066c"), frozenset("'-")
log = logging.getLogger(__name__)


def for_wer(text: str, language: str = "") -> str:
    """Normalise a transcript for word error rates.

    Args:
        text: Transcript to normalise.
        language: Language code of the transcript; Turkish and Azerbaijani have their own lower-case letters.

    Returns:
        The text in lower case (see `lower_case`) and composed form (NFC), with one space between words, with letters,
        digits and kana of usual width, and with the letters of Latin ligatures. Punctuation and symbols (Unicode
        categories P and S) are removed, with the marks on them, except ' and - between letters or digits, and . and ,
        between digits. Variation selectors and marks that enclose a character, such as a key cap, are removed.
    """
    text, _ = clean_text(text)
    text = text.translate(_SPELLED)
    cleaned = ""
    for place, mark in enumerate(text):
        cleaned += mark if mark.isalnum() or _stays(text, place, cleaned) else " "
    return lower_case(" ".join(cleaned.split()), language)


def lower_case(text: str, language: str = "") -> str:
    """Return `text` in lower case and composed form (NFC): J̌ has no composed form, but its small letter has.

    İ becomes i in every language, without the dot above (U+0307) that Unicode adds.

    Args:
        text: The text.
        language: Language code; I becomes ı in Turkish and Azerbaijani. If it is unknown, I becomes i, and a notice
            says so once if a text has İ or ı.
    """
    if base_language(language) in DOTTED_I:
        text = text.replace("I", "ı")
    elif not language and ("İ" in text or "ı" in text):
        _tell_of_dotless_i()
    return unicodedata.normalize("NFC", text.replace("İ", "i").lower().replace("i\u0307", "i"))


@cache
def _tell_of_dotless_i() -> None:
    reason = "texts have İ or ı and no language, so that I becomes i, which is wrong in Turkish and Azerbaijani"
    log.warning("notice: %s; give the language, by a column language or a table utt2lang", reason)


def subtitle(text: str) -> str:
    """Read a text of subtitles: without tags for its style, such as <i> or <font color="red">, entities as characters.

    Other tags stay, such as <unk>, which is no style but a word.
    """
    return html.unescape(_STYLE.sub("", _BREAK.sub(" ", text))) if "<" in text or "&" in text else text


def without_notes(text: str) -> str:
    """Remove notes in brackets, such as (Applause) or [Music]."""
    return " ".join(_NOTES.sub(" ", text).split())


def _stays(text: str, place: int, before: str) -> bool:
    """Return whether to keep the character at `place`: no punctuation or symbol, or one inside a word or number.

    A mark is kept if its character is; `before` is the text kept so far.
    """
    mark = text[place]
    category = unicodedata.category(mark)
    if category[0] == "M":
        return before[-1:] != " " or text[place - 1] == " "
    if category[0] not in "PS":
        return True
    around = before[-1:] + text[place + 1 : place + 2]
    if len(around) < 2:
        return False
    if mark in _IN_NUMBERS:
        return around.isdecimal()
    return mark in _IN_WORDS and all(unicodedata.category(letter)[0] in "LMN" for letter in around)
