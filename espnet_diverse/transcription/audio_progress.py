"""How far transcribing is: files and audio done, and how much faster than real time, on stderr.

On a terminal it is a bar of tqdm; elsewhere a plain line now and then, and one at the end. The bar is of audio: one
long recording moves it with each batch of stretches that is searched.
"""

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.audio.libsndfile import open_sound
from espnet_diverse.audio.sources import STDIN
from espnet_diverse.errors import DataError

if TYPE_CHECKING:
    from tqdm import tqdm

_REDRAWN = 0.2  # seconds between two drawings of the bar
_UNTOLD = 1 << 50  # frames; libsndfile says more of flac that was written to a pipe
_KNOWN, _UNKNOWN = "{desc} |{bar}| {percentage:.0f}% [{elapsed}<{remaining}]", "{desc} [{elapsed}]"  # its total


class Meter:
    """Counts seconds of audio, from when it is made.

    Args:
        paths: Recordings in the order of their indices. Headers tell their lengths where they can; of others the
            length is known from when they are opened, and until then `+` stands behind the sum.
        every_seconds: Time between two plain lines where stderr is no terminal.
    """

    def __init__(self, paths: Sequence[str], every_seconds: float = 10.0):
        self.lengths = [told_length(path) for path in paths]
        self.done, self.finished = [0.0] * len(paths), 0
        self._start = self._last = time.monotonic()
        self._bar = _bar() if sys.stderr.isatty() else None
        self._every = every_seconds if self._bar is None else _REDRAWN
        if self._bar is not None:
            self._show()

    def hear(self, index: int, done: float, length: float) -> None:
        """Take down that of recording `index`, which lasts `length` seconds, `done` seconds are done."""
        self.done[index], self.lengths[index] = done, length
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._show()

    def finish(self, index: int) -> None:
        """Take down that there is a result of recording `index`, and make room on the terminal to print it."""
        self.lengths[index] = self.done[index]  # of one that failed, no more will be done
        self.finished += 1
        if self._bar is not None:
            self._bar.clear()

    def close(self) -> None:
        """End the bar, or say how it has ended where anything was done."""
        if self._bar is not None:
            self._bar.close()
        elif any(self.done):
            self._show()

    def __str__(self) -> str:
        done, seconds = sum(self.done), time.monotonic() - self._start
        speed = done / seconds if seconds else 0.0
        audio = f"{_clock(done)}/{_clock(self._total())}{'+' * (None in self.lengths)} of audio"
        return f"transcribe: {self.finished}/{len(self.done)} files, {audio}, {speed:.{int(speed < 10)}f}x real time"

    def _total(self) -> float:
        return sum(length or 0.0 for length in self.lengths)

    def _show(self) -> None:
        if self._bar is None:
            print(f"{self}, {time.monotonic() - self._start:.0f} s", file=sys.stderr, flush=True)
            return
        known = None not in self.lengths
        self._bar.bar_format = _KNOWN if known else _UNKNOWN
        self._bar.n, self._bar.total = sum(self.done), self._total() if known else None
        self._bar.set_description_str(str(self))


def told_length(path: str) -> float | None:
    """Seconds that the header of a file tells, which may be an estimate; None where there is none to be read."""
    if path == STDIN:
        return None
    try:
        with open_sound(Path(path)) as sound:
            return sound.frames / sound.samplerate if sound.frames < _UNTOLD else None
    except (DataError, OSError, ValueError, ZeroDivisionError):  # opening it says what is wrong
        return None


def _bar() -> "tqdm":
    from tqdm import tqdm

    return tqdm(desc="transcribe", bar_format=_UNKNOWN, dynamic_ncols=True, leave=False)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
