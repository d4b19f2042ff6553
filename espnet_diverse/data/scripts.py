"""Scripts without spaces between words: which they are, and where texts in them are joined and broken.

`UNSPACED` is the one table of these scripts; scoring, word times and subtitles use it. Korean, which has spaces, is
told apart because sacrebleu has a tokenizer for it.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

UNSPACED = {
    "zh": "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",  # Chinese characters, with 々〆〇
    "ja": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f",  # kana, also of half width
    "th": "\u0e01-\u0e3a\u0e40-\u0e5b",
    "lo": "\u0e80-\u0eff",
    "bo": "\u0f00-\u0f0c\u0f15-\u0fff",  # Tibetan, also of Dzongkha, without the shad, which a space follows
    "my": "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f",
    "km": "\u1780-\u17da\u17dc-\u17ff\u19e0-\u19ff",  # without the sign of the currency
}
"""Letters, marks, digits and punctuation of the scripts, as ranges of a regular expression, by a language of each."""
RANGES = "".join(UNSPACED.values())
UNSPACED_LETTER = re.compile(f"[{RANGES}]")
PUNCTUATION = "\u3001-\u3003\u3008-\u301f\uff01-\uff0f\uff1a-\uff1f\uff61-\uff65"  # punctuation such as 。，！
_CHARACTER = re.compile(f"[{RANGES}{PUNCTUATION}]")
_SCRIPTS = {language: re.compile(f"[{ranges}]") for language, ranges in UNSPACED.items()}
_SCRIPTS["ko"] = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]")
# Vowels before their consonant and signs that stack the next letter; vowels and signs that belong to the letter before.
_BEFORE, _AFTER = "\u0e40-\u0e44\u0ec0-\u0ec4\u1039\u17d2", "\u0e2f-\u0e33\u0e45\u0e46\u0eaf-\u0eb3\u0ebd\u0ec6\u17d7"
_UNDIVIDED = re.compile(f"[{_BEFORE}].|.[{_AFTER}]|[\u0f00-\u0f0a\u0f15-\u0fff]{{2}}")  # Tibetan: a syllable


def join_texts(texts: Iterable[str]) -> str:
    """Join texts, with a space between them except between characters of scripts without spaces."""
    joined = ""
    for text in filter(None, texts):
        space = joined and not (_CHARACTER.match(joined[-1]) and _CHARACTER.match(text))
        joined += " " * bool(space) + text
    return joined


def may_break(before: str, after: str) -> bool:
    """Return whether a line or a word may end between two texts that no space separates.

    It may beside a letter of a script without spaces, but not before a mark, a vowel sign or punctuation.
    """
    if not after[0].isalnum() or not any(map(str.isalnum, before)) or _UNDIVIDED.fullmatch(before[-1] + after[0]):
        return False
    return bool(UNSPACED_LETTER.search(before) or UNSPACED_LETTER.match(after))


def language_of_script(text: str) -> str | None:
    """Language that stands for the script of most letters of a text.

    Returns:
        A key of `UNSPACED`, "ko" for Hangul, "" for other scripts, None without letters. Chinese characters beside kana
        count as Japanese, unless kana are fewer than a tenth of them.
    """
    if text.isascii():
        return "" if any(map(str.isalpha, text)) else None
    counts = Counter[str]()
    for character, count in Counter(text).items():
        if character.isalpha():
            counts[_language(character)] += count
    if counts["ja"] and 10 * counts["ja"] >= counts["zh"]:
        counts["ja"] += counts.pop("zh", 0)
    return max(counts, key=counts.__getitem__) if counts else None


@lru_cache(1 << 16)
def _language(letter: str) -> str:
    return next((language for language, script in _SCRIPTS.items() if script.match(letter)), "")
