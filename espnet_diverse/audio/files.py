"""Audio files in, 16 kHz mono out: whatever libsndfile reads (wav, flac, mp3, ogg, opus, sph and more).

Samples are float32 in [-1, 1), one channel: the channels of a recording are averaged. Files are written as 16-bit wav
or flac; 16-bit samples pass through unchanged, bit for bit.

Speed perturbation follows Kaldi (Ko et al., Interspeech 2015): the signal is resampled as if recorded at `speed` times
its rate, which changes tempo and pitch, so its length is divided by `speed`.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
import soxr

from espnet_diverse.audio.segments import Segment
from espnet_diverse.errors import DataError

RATE = 16_000
# A segment may end this much after the recording does, as in Kaldi's extract-segments; it is cut at the end.
OVERSHOOT_SECONDS = 0.5
# A resampled or decoded signal can pass 1 a little; a float file far beyond holds unscaled integers.
LOUDEST = 4.0
# A damaged header can name any rate, and bringing 1 Hz to `RATE` would fill the memory.
RATES = (1000, 768_000)
_BLOCK_SAMPLES = 1 << 20
# Writers that do not know the length when they start (pipes) leave a size of about 2^31 or 2^32 in the header.
_UNKNOWN_BYTES = 0x7FFF0000
# What libsndfile notes of a wav, aiff, au or w64 file that ends too early; and what a sph file says of its length.
_SHORT_DATA = re.compile(r"^\s*(?:data|SSND|Data Size|riff)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)
_SPH_LENGTH = re.compile(rb"^sample_count -i (\d+)", re.MULTILINE)
# It says so of files, too, in which its mp3 decoder finds nothing.
_NO_FILE = "File does not exist or is not a regular file (possibly a pipe?)"


class AudioInfo(NamedTuple):
    """What the header of an audio file says."""

    rate: int
    channels: int
    frames: int
    container: str
    subtype: str

    @property
    def seconds(self) -> float:
        return self.frames / self.rate

    @property
    def is_ready(self) -> bool:
        """Whether the file is already what `write_audio` writes: 16 kHz mono 16-bit wav or flac."""
        coded = self.container in ("WAV", "WAVEX", "FLAC") and self.subtype == "PCM_16"
        return coded and self.rate == RATE and self.channels == 1

    @property
    def needs_decoding(self) -> bool:
        """Whether a fault could hide behind a sound header: NaN in float samples, a torn compressed stream."""
        return not (self.container in ("WAV", "WAVEX") and self.subtype.startswith("PCM"))


def inspect_audio(path: Path) -> AudioInfo:
    """Read the header of an audio file.

    Raises:
        DataError: naming the file, where it is missing, unreadable, empty, or shorter than its header says.
    """
    with open_sound(path) as audio:
        return sound_info(path, audio)


def check_audio(path: Path) -> AudioInfo:
    """Read the header and, where a fault could hide behind it, all samples; raise what `read_audio` raises."""
    info = inspect_audio(path)
    if info.needs_decoding:
        read_audio(path)
    return info


def read_audio(path: Path, segment: Segment | None = None) -> tuple[np.ndarray, int]:
    """Read a file, or one segment of it, with its channels averaged.

    Returns:
        Samples (T,) float32 and their rate in Hz.

    Raises:
        DataError: naming the file, where it cannot be read, holds NaN or infinite samples, or is torn; where the
            segment lies past its end.
    """
    with open_sound(path) as audio:
        info = sound_info(path, audio)
        start, wanted = 0, info.frames
        if segment is not None:
            past = segment_fault(segment, info.seconds)
            if past:
                raise DataError(f"{path}: {past}")
            start = round(segment.start * info.rate)
            wanted = min(round(segment.end * info.rate), info.frames) - start
        blocks = list(mono_blocks(path, audio, start, wanted))
    return np.concatenate(blocks) if blocks else np.zeros(0, np.float32), info.rate


def segment_fault(segment: Segment, seconds: float) -> str | None:
    """Say why `segment` does not lie in a recording of this length, or return None."""
    if segment.start >= seconds or segment.end > seconds + OVERSHOOT_SECONDS:
        return f"segment from {segment.start} to {segment.end} s lies past the end of the audio at {seconds:.3f} s"
    return None


def resample(samples: np.ndarray, rate: int, speed: float = 1.0) -> np.ndarray:
    """Bring samples (T,) from `rate` Hz to `RATE`, played `speed` times as fast: (about T * RATE / (rate * speed),)."""
    if rate * speed == RATE:
        return samples
    return soxr.resample(samples, rate * speed, RATE)


def write_audio(path: Path, samples: np.ndarray) -> None:
    """Write samples (T,) float32 at `RATE` as 16-bit wav or flac, by the suffix of `path`.

    The scale is 2^15, which reading undoes exactly; libsndfile's own conversion from float uses 2^15 - 1.
    """
    integers = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)
    try:
        soundfile.write(path, integers, RATE, subtype="PCM_16")
    except RuntimeError as error:
        raise DataError(f"{path}: cannot be written ({_reason(error)}); is the disk full?") from error


def open_sound(path: Path, name: str | Path | None = None) -> soundfile.SoundFile:
    """Open an audio file.

    Args:
        path: The file.
        name: What errors call it; the path where not given.

    Raises:
        DataError: It is missing, unreadable or empty, or libsndfile does not know its format.
    """
    name = name or path
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "no such audio file"
        raise DataError(f"{name}: {what}; mend the path or get the file")
    if not os.access(path, os.R_OK):
        raise DataError(f"{name}: may not be read; change its permissions")
    if path.stat().st_size == 0:
        raise DataError(f"{name}: the file is empty (0 bytes); get it again")
    try:
        return soundfile.SoundFile(path)
    except (RuntimeError, TypeError) as error:
        allowed = "readable are wav, flac, mp3, ogg, opus, sph and what else libsndfile knows"
        raise DataError(f"{name}: not readable as audio ({_reason(error)}); {allowed}") from error


def sound_info(name: str | Path, audio: soundfile.SoundFile) -> AudioInfo:
    """What the header of an open file says, where that can be true.

    Raises:
        DataError: The file holds fewer samples than its header says, or none, or has an impossible rate.
    """
    short = _SHORT_DATA.search(audio.extra_info)
    if short and int(short[2]) < int(short[1]) < _UNKNOWN_BYTES:
        raise DataError(f"{name}: holds {short[2]} of {short[1]} bytes; the file is torn, get it again")
    claimed = _sph_length(audio) if audio.format == "NIST" else 0
    if claimed > audio.frames:
        raise DataError(f"{name}: holds {audio.frames} of {claimed} samples; the file is torn, get it again")
    if audio.frames == 0:
        raise DataError(f"{name}: holds no samples; get it again or take the utterance out")
    if not RATES[0] <= audio.samplerate <= RATES[1]:
        raise DataError(f"{name}: its rate is {audio.samplerate} Hz; {RATES[0]} to {RATES[1]} Hz are allowed")
    return AudioInfo(audio.samplerate, audio.channels, audio.frames, audio.format, audio.subtype)


def _sph_length(audio: soundfile.SoundFile) -> int:
    with Path(audio.name).open("rb") as file:
        found = _SPH_LENGTH.search(file.read(1024))
    return int(found[1]) if found else 0


def mono_blocks(
    name: str | Path,
    audio: soundfile.SoundFile,
    start: int = 0,
    wanted: int | None = None,
    largest: int = _BLOCK_SAMPLES,
) -> Iterator[np.ndarray]:
    """Read samples in blocks, so that a lying header cannot ask for more memory than the file fills.

    Args:
        name: What errors call the file.
        audio: The file, which `sound_info` has found no fault with.
        start: First frame.
        wanted: Number of frames; all to the end where not given.
        largest: Frames of a block; of many channels it is fewer.

    Yields:
        Blocks (L,) float32 at the rate of the file, the channels averaged.

    Raises:
        DataError: The file is damaged or torn, or holds NaN, infinite or unscaled samples.
    """
    wanted, read = audio.frames - start if wanted is None else wanted, 0
    if start:
        _decoded(name, audio.seek, start)
    while read < wanted:
        frames = min(wanted - read, largest, _BLOCK_SAMPLES // audio.channels)
        block = _decoded(name, audio.read, frames, dtype="float32", always_2d=True)
        if not len(block):
            break
        mono = block[:, 0] if audio.channels == 1 else block.mean(axis=1)
        _check_samples(name, mono, audio.samplerate, start + read)
        read += len(block)
        yield mono
    # The length of mp3 and the like is partly an estimate.
    if read < (wanted if audio.format in ("WAV", "WAVEX", "FLAC") else 0.9 * wanted):
        raise DataError(f"{name}: holds {read} of {wanted} samples; the file is torn, get it again")


def _decoded(name: str | Path, step: Callable, *args, **kwargs):
    try:
        return step(*args, **kwargs)
    except RuntimeError as error:
        raise DataError(f"{name}: cannot be decoded ({_reason(error)}); the file is damaged") from error


def _check_samples(name: str | Path, samples: np.ndarray, rate: int, start: int) -> None:
    finite = np.isfinite(samples)
    if not finite.all():
        first = (start + int(np.argmin(finite))) / rate
        raise DataError(f"{name}: holds NaN or infinite samples, the first at {first:.3f} s; make it again")
    peak = float(np.abs(samples).max(initial=0.0))
    if peak > LOUDEST:
        raise DataError(f"{name}: samples reach {peak:g}; floating-point audio must lie between -1 and 1: scale it")


def _reason(error: Exception) -> str:
    """The library's own words without the path, which our message already gives."""
    reason = str(error).rpartition(": ")[2].strip().rstrip(".")
    return "Format not recognised" if reason == _NO_FILE else reason
