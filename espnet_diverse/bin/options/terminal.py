"""Text on a terminal: names, tokens and messages of foreign files must not control it.

All output of a command passes here, so that callers can ignore this. Files and pipes get text as it is.
"""

import errno
import os
import re
import termios
from collections.abc import Callable
from typing import Any, TextIO

from espnet_diverse.untrusted.shown_text import CONTROL, visible

_MOVING = re.compile(r"\x1b(?!\[[AK])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""`CONTROL`, except what progress bars write: carriage returns, `ESC [A`, which moves up, `ESC [K`, which clears."""


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

    Progress bars, which move the cursor, write to `progress.cursor_stream`. After the terminal is closed, output is
    discarded: a command saves its work and ends with its own exit code.

    Args:
        stream: The stream, which serves everything but writing.
        control: What is replaced.

    Attributes:
        cursor: The same stream for what moves the cursor.
    """

    def __init__(self, stream: TextIO, control: re.Pattern[str] = CONTROL):
        self._stream, self._control = stream, control
        self.cursor = self if control is _MOVING else Terminal(stream, _MOVING)

    def write(self, text: str) -> int:
        """Write text."""
        shown = visible(text, self._control)
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
