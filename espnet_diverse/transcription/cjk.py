"""Chinese characters and kana, which are written without spaces between words."""

import re
from collections.abc import Iterable

# Kana, also of half width, and Chinese characters with 々〆〇; punctuation of these scripts, such as 。，！
_LETTERS = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_MARKS = "\u3001-\u3003\u3008-\u301f\uff01-\uff0f\uff1a-\uff1f\uff61-\uff65"
CJK_LETTER = re.compile(f"[{_LETTERS}]")
_CHARACTER = re.compile(f"[{_LETTERS}{_MARKS}]")


def join_texts(texts: Iterable[str]) -> str:
    """Join texts, with a space between them except between Chinese or Japanese characters."""
    whole = ""
    for text in filter(None, texts):
        space = whole and not (_CHARACTER.match(whole[-1]) and _CHARACTER.match(text))
        whole += " " * bool(space) + text
    return whole
