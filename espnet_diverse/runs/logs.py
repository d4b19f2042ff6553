"""Logs of commands: a file gets every record, the console warnings and errors, each once."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def logged(path: str | Path) -> Iterator[None]:
    """Append every log record and Python warning to the file `path`; show warnings and errors on the console too, once.

    ESPnet configures logging once in a process, with a call that does nothing if there are handlers. Each stage
    therefore adds handlers of its own and removes them at its end.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    root = logging.getLogger()
    level = root.level
    file = _LogFile(path, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s (%(module)s:%(lineno)d) %(levelname)s: %(message)s"))
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.WARNING)
    console.addFilter(lambda record: record.name != "py.warnings")  # from libraries; users cannot act on them
    console.addFilter(_New())
    console.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    before = root.handlers[:]
    # A library that logs while it is imported leaves a handler that would show everything.
    root.handlers[:] = [*(handler for handler in before if type(handler) is not logging.StreamHandler), file, console]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(level)
        root.handlers[:] = before
        for handler in (file, console):
            handler.close()


class _New(logging.Filter):
    """Passes a message once: ESPnet repeats some for every utterance and epoch."""

    def __init__(self):
        super().__init__()
        self._shown: set[int] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is new."""
        message = hash(record.getMessage())
        is_new = message not in self._shown
        self._shown.add(message)
        return is_new


class _LogFile(logging.FileHandler):
    """A log; a record that cannot be written, as on a full disk, is lost without a traceback on the console."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, the name in `logging`
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        """Close the file; for the records that are not written yet there may be no room either."""
        with suppress(OSError):
            super().close()
