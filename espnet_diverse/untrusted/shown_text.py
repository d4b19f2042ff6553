"""Escaping of untrusted text on terminals and pages: control characters become U+FFFD, and markup is text."""

import html
import re

CONTROL = re.compile(r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters and overrides of text direction, except tab and line ends."""


def visible(text: str, control: re.Pattern[str] = CONTROL) -> str:
    """Replace the characters of a pattern."""
    return control.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(text: str) -> str:
    """A text for HTML, in an element or an attribute with quotes."""
    return html.escape(visible(text))
