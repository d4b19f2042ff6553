"""Audio from anywhere, in blocks: a file, a file object, standard input or an array in; 16 kHz mono out.

Files of any rate and number of channels are read by libsndfile (wav, flac, mp3, ogg, opus and more); what `media` knows
goes through ffmpeg first, and what `unmeasured` knows is read part by part. A recording is found sound before anything
of it is handed out, so a fault near the end of a long one cannot spoil work that was begun on its beginning. No more
than a block is in memory at any time.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import ceil
from numbers import Real
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.files import LOUDEST, RATE, RATES, mono_blocks, open_sound, sound_info
from espnet_diverse.audio.media import convert, media_format
from espnet_diverse.audio.resampling import resampled
from espnet_diverse.audio.unsized import unread_parts, write_whole
from espnet_diverse.errors import DataError

STDIN = "-"
Source = str | Path | BinaryIO | NDArray
_TEMPORARY = "espnet_diverse_"
_MOST_CHANNELS = 64
_SCALES = {"int16": 2.0**15, "int32": 2.0**31}


@dataclass(frozen=True)
class Audio:
    """A recording without a fault.

    Attributes:
        name: What the source is called in messages.
        duration: Seconds, up to the end of the last sample at 16 kHz.
        read: Its samples from the beginning, mono, at its own rate, in blocks of at most that many frames.
        rate: Its own rate in Hz.
    """

    name: str
    duration: float
    read: Callable[[int], Iterable[NDArray]]
    rate: int

    def blocks(self, seconds: float = 30.0) -> Iterator[NDArray]:
        """The recording from its beginning, in blocks of about `seconds` or shorter: (L,) float32 at 16 kHz.

        Together they equal what `corpora.audio.resample` makes of the whole recording.
        """
        blocks = self.read(max(1, round(seconds * self.rate)))
        return resampled(blocks, self.rate)


@contextmanager
def open_audio(source: Source, rate: int | None = None) -> Iterator[Audio]:
    """Open a recording.

    Args:
        source: A path; "-" for standard input; a binary file object, read from where it stands to its end; or samples,
            (T,) or (T, channels), int16, int32, or floating-point between -1 and 1.
        rate: Of samples, in Hz. Files know theirs.

    Raises:
        DataError: The source cannot be read, is damaged, torn, empty, no audio, or holds NaN or infinite samples, or
            the rate is missing or impossible. The message begins with the name of the source.
    """
    if hasattr(source, "__array__"):
        yield _of_samples(np.asarray(source), rate)
        return
    with ExitStack() as stack:
        name = _name(source)
        try:
            path = _on_disk(source, name, stack)
            if path.is_dir():
                raise DataError(f"{name}: is a folder; give a file, or a folder that holds audio")
            audio = _of_file(_readable(path, name, stack), name)
        except OSError as error:
            raise DataError(f"{name}: cannot be read ({error.strerror or error}); mend the path or the file") from error
        yield audio


def _name(source: Source) -> str:
    if isinstance(source, str | Path):
        return str(source)
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        return name if isinstance(name, str) else "audio"
    raise DataError(f"audio is a {type(source).__name__}; give a path, a binary file object, or an array with its rate")


def _on_disk(source: str | Path | BinaryIO, name: str, stack: ExitStack) -> Path:
    """The file, or a temporary one that a stream is copied to: formats are read with jumps, which a pipe cannot do."""
    if isinstance(source, str | Path) and str(source) != STDIN:
        return Path(source)
    stream = sys.stdin.buffer if isinstance(source, str | Path) else source
    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_TEMPORARY)), "audio")
    try:
        with path.open("wb") as copy:
            shutil.copyfileobj(stream, copy)
    except (TypeError, ValueError) as error:
        what = f"cannot be read as a binary file ({error})"
        raise DataError(f"{name}: {what}; open the file with mode 'rb' and leave it open") from error
    return path


def _readable(path: Path, name: str, stack: ExitStack) -> Path:
    """The file, or a temporary wav of what libsndfile cannot read, or not to its end."""
    kind = media_format(path) if path.is_file() else None
    parts = unread_parts(path) if kind is None and path.is_file() else []
    if kind is None and not parts:
        return path
    wav = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_TEMPORARY)), "audio.wav")
    if kind is not None:
        convert(path, name, kind, wav)
    else:
        write_whole(path, parts, name, wav)
    return wav


def _of_file(path: Path, name: str) -> Audio:
    with open_sound(path, name) as sound:
        info = sound_info(name, sound)
        frames = sum(map(len, mono_blocks(name, sound))) if info.needs_decoding else info.frames

    def read(largest: int) -> Iterator[NDArray]:
        with open_sound(path, name) as sound:
            yield from mono_blocks(name, sound, largest=largest)

    return Audio(name, _seconds(frames, info.rate), read, info.rate)


def _of_samples(samples: NDArray, rate: int | None) -> Audio:
    name = "audio array"
    if not isinstance(rate, Real) or not RATES[0] <= rate <= RATES[1]:
        raise DataError(f"{name}: its rate is {rate}; give one of {RATES[0]} to {RATES[1]} Hz")
    if samples.ndim not in (1, 2) or not samples.size or samples[0].size > _MOST_CHANNELS:
        shape = tuple(samples.shape)
        raise DataError(f"{name}: its shape is {shape}; give (samples,) or (samples, channels), at least one sample")
    if samples.dtype.kind != "f" and samples.dtype.name not in _SCALES:
        raise DataError(f"{name}: its type is {samples.dtype}; give int16, int32, or floats between -1 and 1")
    for block in _slices(samples, 1 << 20):
        peak = np.abs(block).max()
        if not peak <= LOUDEST:  # NaN is not
            raise DataError(f"{name}: samples reach {peak:g}; they must be finite and lie between -1 and 1: scale them")
    return Audio(name, _seconds(len(samples), rate), lambda largest: _slices(samples, largest), rate)


def _seconds(frames: int, rate: float) -> float:
    """Rounded up, for resampling may: no stretch of a recording ends after it."""
    return ceil(frames * RATE / rate) / RATE


def _slices(samples: NDArray, largest: int) -> Iterator[NDArray]:
    """Samples (T,) or (T, channels), scaled and averaged, in blocks."""
    scale = _SCALES.get(samples.dtype.name, 1.0)
    for start in range(0, len(samples), largest):
        block = samples[start : start + largest].astype(np.float32) / np.float32(scale)
        yield block if block.ndim == 1 else block.mean(axis=1)
