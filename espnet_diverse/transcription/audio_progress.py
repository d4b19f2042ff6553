"""Progress of transcription on stderr: files and seconds of audio that are done, and speed as a multiple of real time.

On a terminal it is a tqdm bar; elsewhere plain lines at intervals, and one at the end. The bar measures audio: within
one long recording it moves with each batch of segments that is decoded.
"""

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.audio.libsndfile import check_file, open_sound
from espnet_diverse.audio.media import media_format
from espnet_diverse.audio.sources import STDIN
from espnet_diverse.errors import DataError
from espnet_diverse.progress import cursor_stream

if TYPE_CHECKING:
    from tqdm import tqdm

_REDRAW_SECONDS = 0.2
_UNKNOWN_FRAMES = 1 << 50  # libsndfile reports more than this for flac that was written to a pipe
_WITH_TOTAL, _WITHOUT_TOTAL = "{desc} |{bar}| {percentage:.0f}% [{elapsed}<{remaining}]", "{desc} [{elapsed}]"


class AudioProgress:
    """Counts seconds of audio, beginning when it is constructed.

    Args:
        paths: Recordings in the order of their indices. Lengths come from their headers; where a header has none, the
            length is known once the recording is opened, and until then the total is followed by `+`.
        every_seconds: Time between two plain lines if stderr is not a terminal.
    """

    def __init__(self, paths: Sequence[str], every_seconds: float = 10.0):
        self.lengths = [header_seconds(path) for path in paths]
        self.done, self.finished = [0.0] * len(paths), 0
        self._start = self._last = time.monotonic()
        self._bar = _bar() if sys.stderr.isatty() else None
        self._every = every_seconds if self._bar is None else _REDRAW_SECONDS
        if self._bar is not None:
            self._show()

    def update(self, index: int, done: float, length: float) -> None:
        """Record that `done` of the `length` seconds of recording `index` are done."""
        self.done[index], self.lengths[index] = done, length
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._show()

    def finish(self, index: int) -> None:
        """Record that recording `index` has a result, and clear the bar so that the result can be printed."""
        self.lengths[index] = self.done[index]  # the rest of a failed one will not be done
        self.finished += 1
        if self._bar is not None:
            self._bar.clear()

    def close(self) -> None:
        """Remove the bar, or print a last line if anything was done."""
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
        self._bar.bar_format = _WITH_TOTAL if known else _WITHOUT_TOTAL
        self._bar.n, self._bar.total = sum(self.done), self._total() if known else None
        self._bar.set_description_str(str(self))


def header_seconds(path: str) -> float | None:
    """Length of a file by its header, possibly an estimate; None if the header has none or cannot be read."""
    if path == STDIN:
        return None
    try:
        check_file(Path(path), path)
        if media_format(Path(path)) is not None:  # libsndfile would search all of it for the frames of an mp3
            return None
        with open_sound(Path(path), path) as sound:
            return sound.frames / sound.samplerate if sound.frames < _UNKNOWN_FRAMES else None
    except (DataError, OSError, ValueError, ZeroDivisionError):  # reported when the recording is opened
        return None


def _bar() -> "tqdm":
    from tqdm import tqdm

    return tqdm(desc="transcribe", bar_format=_WITHOUT_TOTAL, dynamic_ncols=True, leave=False, file=cursor_stream())


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
