"""Text on a terminal: names, tokens and messages of foreign files must not control it.

All output of a command passes here, so that no place has to think of it. Files and pipes get text as it is.
"""

import re
from typing import Any, TextIO

_CONTROL = re.compile(r"\x1b(?!\[[AK])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters and overrides of the direction of text, but tab, line ends, and what progress bars write: `ESC [A`
moves up a line, `ESC [K` clears its rest."""


class Terminal:
    """A stream to a terminal that shows control characters as U+FFFD.

    Args:
        stream: The stream, which serves everything but writing.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        return self._stream.write(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
