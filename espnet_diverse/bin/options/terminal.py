"""Text on a terminal: names, tokens and messages of foreign files must not control it.

All output of a command passes here, so that callers can ignore this. Files and pipes get text as it is.
"""

import errno
import os
import re
import termios
from collections.abc import Callable
from typing import Any, TextIO

_CONTROL = re.compile(r"\x1b(?!\[[AK])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters and overrides of text direction, except tab, line ends and what progress bars write: `ESC [A`
moves up a line, `ESC [K` clears its rest."""


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal, open or closed; a closed one is none to `isatty` of some systems."""
    try:
        termios.tcgetattr(stream.fileno())
    except OSError:
        return False
    except termios.error as error:
        return error.args[0] == errno.EIO
    return True


class Terminal:
    """A stream to a terminal that shows control characters as U+FFFD.

    After the terminal is closed, output is discarded: a command saves its work and ends with its own exit code.

    Args:
        stream: The stream, which serves everything but writing.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
        self._while_open(lambda: self._stream.write(shown))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._while_open(self._stream.flush)

    def _while_open(self, action: Callable[[], object]) -> None:
        """Write by `action`; once the terminal is closed, redirect the stream to the null device."""
        try:
            action()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
