"""Recordings from any source as checked mono blocks of one rate: a file, a file object, standard input or an array.

A recording is checked before any of its samples are returned, so that a fault near the end of a long recording is
reported before any work is done. No more than a block is in memory at any time.
"""

import io
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.libsndfile import LOUDEST, RATES, Powers
from espnet_diverse.audio.reading import AudioFile, open_file
from espnet_diverse.audio.resampling import RATE, resample_blocks
from espnet_diverse.audio.segments import Segment
from espnet_diverse.errors import DataError, TruncatedError, first_line
from espnet_diverse.portable import unnamed_file

log = logging.getLogger(__name__)


@runtime_checkable
class Decoder(Protocol):
    """A decoder of torchcodec, which `datasets` has in rows of audio from version 4."""

    def get_all_samples(self) -> Any:
        """The samples as `data` (channels, T), and their `sample_rate`."""


STDIN = "-"
Source = str | Path | BinaryIO | bytes | NDArray | tuple[NDArray, int] | Mapping[str, Any] | Decoder
_MAX_CHANNELS = 64
_SCALES = {"int16": 2.0**15, "int32": 2.0**31}


@dataclass(frozen=True)
class Audio:
    """A recording that was checked.

    Attributes:
        name: Name of the recording in messages.
        duration: Length of the recording in seconds, up to the end of the last sample at `target_rate`.
        rate: Sampling rate of the recording in Hz.
        decode: Function that decodes the recording from the beginning, mono, at `rate`, in blocks of at most `largest`
            frames.
        target_rate: Sampling rate of `blocks`.
        powers: Powers of the channels of a file and of their mean, in the blocks that were decoded.
    """

    name: str
    duration: float
    rate: int
    decode: Callable[..., Iterable[NDArray]]
    target_rate: int = RATE
    powers: Powers = field(default_factory=Powers)

    def blocks(self, seconds: float = 30.0) -> Iterator[NDArray]:
        """The recording from its beginning, in blocks of about `seconds` or shorter: (L,) float32 at `target_rate`.

        Joined they equal the result of `resampling.resample` for the whole recording.
        """
        blocks = self.decode(largest=max(1, round(seconds * self.rate)))
        return resample_blocks(blocks, self.rate, self.target_rate)

    def samples(self, least: int = 0) -> NDArray:
        """The whole recording (L,) float32 at `target_rate`; of only a few samples, resampling may leave none.

        Raises:
            DataError: There are fewer than `least` samples.
        """
        samples = np.concatenate([np.empty(0, np.float32), *self.blocks()])
        if len(samples) < least:
            has = f"has {len(samples)} samples at {self.target_rate} Hz"
            raise DataError(f"{self.name}: {has}; give a recording with at least {least}")
        return samples


@contextmanager
def open_audio(
    source: Source,
    rate: int | None = None,
    target_rate: int = RATE,
    at_most: float | None = None,
    complete: bool = True,
    channel: int | None = None,
) -> Iterator[Audio]:
    """Open a recording and check it.

    Args:
        source: A path; "-" for standard input; a binary file object, read from its position to its end; the
            content of a file; or samples, (T,) or (T, channels), int16, int32, or floating-point between -1 and 1, also
            as a pair of samples and rate, as a mapping with "array" and "sampling_rate", or as a `Decoder`.
        rate: Sampling rate in Hz; required for samples, ignored for files, whose headers have it.
        target_rate: Sampling rate in Hz that the blocks of the recording will have.
        at_most: Seconds to convert of a file that needs conversion, to bound its size on the disk.
        complete: Whether a truncated file is an error; otherwise the samples that exist are read, with a warning.
        channel: Number of the channel to read, from 0, a column of an array; by default the mean of all.

    Raises:
        DataError: The source cannot be read, is damaged, truncated, empty or not audio, or holds NaN or infinite
            samples, or the rate is missing or impossible, or there is no such channel. The message begins with the name
            of the source.
    """
    source, rate = _with_rate(source, rate)
    if hasattr(source, "__array__") and not isinstance(source, str | bytes):  # a NumPy string is also a Python string
        yield _from_array(_column(_array(source, "audio array"), channel), rate, target_rate)
        return
    source = io.BytesIO(source) if isinstance(source, bytes) else source
    name = _name(source)
    with ExitStack() as stack:
        try:
            path = _on_disk(source, name, stack)
            if path.is_dir():
                raise DataError(f"{name}: is a folder; give a file, or a folder that holds audio")
            file, frames = _opened(stack, path, name, target_rate, at_most, complete)
            if lost := file.unread_bytes():  # for example, a recorder was cut off before it wrote the length
                reason = f"its header leaves out {lost} bytes after the samples, which are not read"
                log.warning("%s: %s; write the header again, as sox --ignore-length does", name, reason)
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"{name}: cannot be read ({reason}); correct the path or the file") from error
        if channel is not None and (fault := file.fault_of(Segment(name, 0.0, inf, channel))):
            raise DataError(f"{name}: {fault}")
        file_rate, powers = file.info.rate, Powers()
        decode = partial(file.blocks, channel=channel, powers=powers)
        yield Audio(name, _duration(frames, file_rate, target_rate), file_rate, decode, target_rate, powers)


def is_recording(value: object) -> bool:
    """Return whether an object is a single recording, and not several."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    is_array = hasattr(value, "__array__") and kind not in ("O", "U")  # kinds of arrays of paths
    is_content = isinstance(value, str | Path | bytes | bytearray | memoryview | Mapping | Decoder)
    return is_array or is_content or hasattr(value, "read")


def _with_rate(source: Source, rate: int | None) -> tuple[Source, int | None]:
    """Split a pair of samples and rate, or a row of audio as Hugging Face's data sets have it, into source and rate."""
    if isinstance(source, Mapping):
        if "array" in source and "sampling_rate" in source:
            return np.asarray(source["array"]), source["sampling_rate"]
        if recording := source.get("bytes") or source.get("path"):
            return recording, rate
    if isinstance(source, tuple) and len(source) == 2 and hasattr(source[0], "__array__"):
        return source
    if isinstance(source, Decoder):
        decoded = source.get_all_samples()
        return decoded.data.T, decoded.sample_rate
    return source, rate


def _opened(
    stack: ExitStack, path: Path, name: str, target_rate: int, at_most: float | None, complete: bool
) -> tuple[AudioFile, int]:
    """An open file and its number of frames; of a truncated file the frames that exist, unless it must be complete."""
    try:
        file = stack.enter_context(open_file(path, name, target_rate, at_most))
        return file, file.check()
    except TruncatedError as error:
        if complete:
            raise
        try:
            file = stack.enter_context(open_file(path, name, target_rate, at_most, complete=False))
            frames = file.check()
        except DataError:  # nothing of it can be read
            frames = 0
        if not frames:
            raise
        message = str(error).partition(";")[0]
        log.warning(
            "%s; the file is truncated, and the %.1f s that are there are read", message, frames / file.info.rate
        )
        return file, frames


def _name(source: Source) -> str:
    if isinstance(source, str | Path):
        if source == "":
            raise DataError("a source is empty; give a file, a folder or -")
        return str(source)
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        return name if isinstance(name, str) else "audio"
    several = "; for several recordings call transcribe_all" if isinstance(source, list | tuple) else ""
    allowed = f"give a path, a binary file object, bytes of a file, or an array with its rate{several}"
    raise DataError(f"audio is a {type(source).__name__}; {allowed}")


def _on_disk(source: str | Path | BinaryIO, name: str, stack: ExitStack) -> Path:
    """The file, or a temporary copy of a stream: decoders seek, which a pipe cannot."""
    if isinstance(source, str | Path) and str(source) != STDIN:
        return Path(source)
    stream = sys.stdin.buffer if isinstance(source, str | Path) else source
    path = stack.enter_context(unnamed_file())
    try:
        with path.open("wb") as copy:
            shutil.copyfileobj(stream, copy)
    except (TypeError, ValueError) as error:
        reason = f"cannot be read as a binary file ({error})"
        raise DataError(f"{name}: {reason}; open the file with mode 'rb' and leave it open") from error
    return path


def _array(samples: object, name: str) -> NDArray:
    """The NumPy array of samples, for example of a tensor."""
    try:
        return np.asarray(samples)
    except (RuntimeError, TypeError, ValueError) as error:  # as of a tensor with a gradient, or of bfloat16
        reason = f"cannot be read as an array ({first_line(error)})"
        raise DataError(
            f"{name}: {reason}; give an array of NumPy, such as tensor.detach().float().cpu().numpy()"
        ) from error


def _column(samples: NDArray, channel: int | None) -> NDArray:
    """Return one channel of samples (T,) or (T, channels), or all of them for None and for other shapes."""
    if channel is None or samples.ndim > 2:
        return samples
    columns = samples[:, None] if samples.ndim == 1 else samples
    if not 0 <= channel < columns.shape[1]:
        raise DataError(f"audio array: has no channel {channel}; it has {columns.shape[1]}, counted from 0")
    return columns[:, channel]


def _from_array(samples: NDArray, rate: int | None, target_rate: int) -> Audio:
    name = "audio array"
    _check_rate(rate, name)
    if not samples.size:
        shape = tuple(samples.shape)
        raise DataError(f"{name}: its shape is {shape}; give (samples,) or (samples, channels), at least one sample")
    for _ in _checked_blocks(samples, name):
        pass
    duration = _duration(len(samples), rate, target_rate)
    return Audio(name, duration, rate, partial(_array_blocks, samples), target_rate)


def live_blocks(blocks: Iterable[NDArray], rate: float | None, target_rate: int) -> Iterator[NDArray]:
    """Convert blocks of samples from a program to mono at one rate; each block is checked when it comes.

    Args:
        blocks: Samples of a stream in order, each block (L,) or (L, channels), int16, int32, or floating-point between
            -1 and 1.
        rate: Their sampling rate in Hz; by default `target_rate`.
        target_rate: Sampling rate in Hz of the result.

    Yields:
        Blocks (L,) float32 at `target_rate`.

    Raises:
        DataError: The rate is impossible, or a block has another type or shape, or samples that are not finite or not
            scaled.
    """
    rate = target_rate if rate is None else rate
    _check_rate(rate, "stream")
    checked = (part for block in blocks for part in _checked_blocks(_array(block, "stream"), "stream"))
    return resample_blocks(checked, rate, target_rate)


def _check_rate(rate: object, name: str) -> None:
    if not isinstance(rate, Real) or not RATES[0] <= rate <= RATES[1]:
        raise DataError(f"{name}: its rate is {rate!r:.100}; give a number from {RATES[0]} to {RATES[1]} Hz")


def _checked_blocks(samples: NDArray, name: str) -> Iterator[NDArray]:
    """Samples (T,) or (T, channels), scaled and averaged, in blocks; no blocks where there are no samples."""
    if samples.ndim not in (1, 2) or samples.ndim == 2 and samples.shape[1] > _MAX_CHANNELS:
        shape = tuple(samples.shape)
        raise DataError(f"{name}: its shape is {shape}; give (samples,) or (samples, channels)")
    if samples.dtype.kind != "f" and samples.dtype.name not in _SCALES:
        raise DataError(f"{name}: its type is {samples.dtype}; give int16, int32, or floats between -1 and 1")
    for block in _array_blocks(samples, 1 << 20) if samples.size else ():
        peak = np.abs(block).max()
        if not peak <= LOUDEST:  # NaN is not
            raise DataError(f"{name}: samples reach {peak:g}; they must be finite and lie between -1 and 1: scale them")
        yield block


def _duration(frames: int, rate: float, target_rate: int) -> float:
    """Seconds, rounded up to a sample, as resampling to `target_rate` may, so that no segment ends after its audio."""
    return ceil(frames * target_rate / rate) / target_rate


def _array_blocks(samples: NDArray, largest: int) -> Iterator[NDArray]:
    """Samples (T,) or (T, channels), scaled and averaged, in blocks."""
    scale = _SCALES.get(samples.dtype.name, 1.0)
    for start in range(0, len(samples), largest):
        block = samples[start : start + largest].astype(np.float32) / np.float32(scale)
        yield block if block.ndim == 1 else block.mean(axis=1)
