"""Interrupts that wait until the next block of a stream is read."""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Interrupts:
    """Turns SIGINT into KeyboardInterrupt where a stream is read: what was read before is worked on to its end.

    A second SIGINT is a KeyboardInterrupt at once. Used in the main thread:

        interrupts = Interrupts()
        with interrupts.handled():
            for block in interrupts.between(blocks): ...
    """

    def __init__(self):
        self._reading, self._asked = False, False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle SIGINT within this context, unless the process ignores it or has a handler of its own."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def between[Block](self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks as they come.

        Raises:
            KeyboardInterrupt: There was a SIGINT while a block was read, or before that.
        """
        source = iter(blocks)
        while True:
            self._reading = True
            try:
                if self._asked:
                    raise KeyboardInterrupt
                block = next(source)
            except StopIteration:
                return
            finally:
                self._reading = False
            yield block

    def _on_signal(self, *_: object) -> None:
        if self._reading or self._asked:
            raise KeyboardInterrupt
        self._asked = True
