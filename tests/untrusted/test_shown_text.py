"""Texts that are shown: what acts is replaced, letters and marks of all scripts stay."""

import unicodedata

from espnet_diverse.untrusted.shown_text import escaped, visible


def test_what_acts_is_replaced():
    assert visible("a\x1b[2J\x00\rb\u202ec\u2066d\x9b") == "a\ufffd[2J\ufffd\ufffdb\ufffdc\ufffdd\ufffd"


def test_other_text_stays():
    text = "tab\tline\nline\r\nעברית\u200f العربية\u200c\u200d हिन्दी 漢字 e\u0301 😀"
    assert visible(text) == text
    assert all(visible(mark) == mark for mark in map(chr, range(0x300)) if unicodedata.category(mark) != "Cc")


def test_markup_is_text():
    assert escaped("<a b='c\"'>&\x07") == "&lt;a b=&#x27;c&quot;&#x27;&gt;&amp;\ufffd"
