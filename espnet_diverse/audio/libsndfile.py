"""Audio files through libsndfile: checks of the header, and decoding in mono blocks.

libsndfile reads wav, flac, mp3, ogg, opus, sph, aiff, au, caf, w64 and more. It silently accepts some damaged files;
`sound_info` and `mono_blocks` refuse them.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from espnet_diverse.audio import RATE, RATES
from espnet_diverse.audio.ark import ArkPart, ark_entry
from espnet_diverse.audio.suffixes import READABLE, TO_CONVERT
from espnet_diverse.errors import DataError, TruncatedError

LOUDEST = 4.0
"""The greatest sample that is accepted. Resampled or decoded audio can exceed 1 a little; a float file far beyond it
holds unscaled integers."""
BLOCK_SAMPLES = 1 << 20
"""Maximum number of samples in a block, of all channels together."""
# Writers that do not know the length when they start (pipes) leave a size of about 2^31 or 2^32 in the header.
_UNKNOWN_BYTES = 0x7FFF0000
# libsndfile's note on a wav, aiff, au or w64 file that ends too early, and the length in the header of a sph file.
_SHORT_DATA = re.compile(r"^\s*(?:data|SSND|Data Size|riff)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)
_SPH_HEAD = 1024
_SPH_PACKED = re.compile(rb"\ANIST_1A[^\0]*?^sample_coding -s\d+ ([ -~]*embedded-[ -~]*)", re.MULTILINE)
_SPH_LENGTH = re.compile(rb"^sample_count -i (\d+)", re.MULTILINE)
# An ID3 tag, or the header of a frame of layer 2 or 3 with a rate, is the beginning of an mp3.
_FRAME = re.compile(rb"\xff[\xf2-\xf5\xfa-\xfd][\x10-\xeb]")
_BEGINNING = re.compile(
    rb"(?:RIFF|RIFX|RF64)....WAVE|riff\x2e\x91|FORM....AIF|fLaC|OggS|\.snd|caff|NIST_1A|ID3|" + _FRAME.pattern,
    re.DOTALL,
)
_SYNC = 1 << 16  # bytes before the first frame of a damaged mp3
# libsndfile gives this message also for files in which its mp3 decoder finds nothing.
_NOT_KNOWN = "Format not recognised"
_NO_FILE = "File does not exist or is not a regular file (possibly a pipe?)"


@dataclass(frozen=True)
class AudioInfo:
    """The header of an audio file.

    Attributes:
        rate: Samples a second.
        channels: Number of channels.
        frames: Number of samples of each channel; an estimate for mp3 and the like.
        container: libsndfile's name of the file format.
        subtype: libsndfile's name of the sample format.
        converted_from: Kind of the file, such as "concatenated mp3", if it had to be converted before libsndfile could
            read it, or the kind of an entry of an ark; otherwise "". The other attributes describe the converted file.
    """

    rate: int
    channels: int
    frames: int
    container: str
    subtype: str
    converted_from: str = ""

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate

    def is_ready(self, rate: int = RATE) -> bool:
        """Return whether the file is already what `write_audio` writes: mono 16-bit wav or flac at `rate` Hz."""
        coded = self.container in ("WAV", "WAVEX", "FLAC") and self.subtype == "PCM_16"
        return coded and self.rate == rate and self.channels == 1 and not self.converted_from

    @property
    def needs_decoding(self) -> bool:
        """Whether some faults show only in decoding: NaN in float samples, a truncated compressed stream."""
        return not (self.container in ("WAV", "WAVEX") and self.subtype.startswith("PCM"))


def check_file(path: Path, name: str | Path, kind: str = "audio file") -> None:
    """Refuse a path that is not a readable, non-empty file, or an entry of one.

    Args:
        path: Path of the file, or an entry of an ark.
        name: Name of the file in error messages.
        kind: Kind of file, for the message on a missing file.

    Raises:
        DataError: The file is missing, not a regular file, unreadable or empty.
    """
    entry = ark_entry(path)
    path = entry.path if entry else path
    if not path.is_file():
        reason = "is not a regular file" if path.exists() else f"no such {kind}"
        if "\N{REPLACEMENT CHARACTER}" in str(path):  # made in reading the table
            raise DataError(f"{name}: {reason}, as the name in the table is not UTF-8; rename the file")
        raise DataError(f"{name}: {reason}; correct the path or get the file")
    if not os.access(path, os.R_OK):
        raise DataError(f"{name}: may not be read; change its permissions")
    if path.stat().st_size == 0:
        raise DataError(f"{name}: the file is empty (0 bytes); get it again")


class Sound(soundfile.SoundFile):
    """A file that keeps its position after a read.

    soundfile seeks to its position after each read; for an mp3 this decodes frames again, and the decoder prints
    complaints about sound files. `seek` works; a read needs the number of frames.
    """

    def seekable(self) -> bool:
        """Return False, for soundfile's methods of reading."""
        return False


def begins_as_audio(path: Path) -> bool:
    """Return whether the first bytes of a file are those of a format that libsndfile reads."""
    with path.open("rb") as file:
        return _BEGINNING.match(file.read(16)) is not None


def _is_no_mp3(path: Path) -> bool:
    """Return whether a file is named .mp3 and is not one, such as a web page; the decoder would print notes on it."""
    if path.suffix.lower() != ".mp3" or begins_as_audio(path):
        return False
    with path.open("rb") as file:
        return _FRAME.search(file.read(_SYNC)) is None


def open_sound(path: Path, name: str | Path) -> Sound:
    """Open an audio file, or an entry of an ark, that `check_file` accepts.

    Raises:
        DataError: libsndfile does not know its format, or the entry is wrong.
    """
    entry = ark_entry(path)
    try:
        if not entry and _is_no_mp3(path):
            raise RuntimeError(_NOT_KNOWN)
        return Sound(ArkPart(entry, name) if entry else os.fsencode(path))
    except (RuntimeError, TypeError) as error:
        if not entry and (coding := _packed_sph(path)):
            todo = "unpack it: sph2pipe -f wav X Y.wav"
            raise DataError(f"{name}: its samples are compressed ({coding}), which is not readable; {todo}") from error
        reason = f"not readable as audio ({error_reason(error)})"
        raise DataError(f"{name}: {reason}; readable are {READABLE}: get it again, or {TO_CONVERT}") from error


def _packed_sph(path: Path) -> str:
    """The coding of a sph file whose samples are compressed, such as "pcm,embedded-shorten-v2.00"; otherwise ""."""
    with path.open("rb") as file:
        match = _SPH_PACKED.search(file.read(_SPH_HEAD))
    return match[1].decode("ascii") if match else ""


def sound_info(
    audio: soundfile.SoundFile, name: str | Path, converted_from: str = "", complete: bool = True
) -> AudioInfo:
    """The header of an open file, checked against its size; with `complete` the file must not be truncated.

    Raises:
        DataError: The file holds fewer samples than its header states, or none, or has an impossible rate.
    """
    short = _SHORT_DATA.search(audio.extra_info)
    if complete and short and int(short[2]) < int(short[1]) < _UNKNOWN_BYTES:
        raise TruncatedError(f"{name}: holds {short[2]} of {short[1]} bytes; the file is truncated, get it again")
    claimed = _sph_length(audio) if audio.format == "NIST" else 0
    if complete and claimed > audio.frames:
        raise TruncatedError(f"{name}: holds {audio.frames} of {claimed} samples; the file is truncated, get it again")
    if audio.frames == 0:
        raise DataError(f"{name}: holds no samples; get it again or remove the utterance")
    if not RATES[0] <= audio.samplerate <= RATES[1]:
        raise DataError(f"{name}: its rate is {audio.samplerate} Hz; {RATES[0]} to {RATES[1]} Hz are allowed")
    return AudioInfo(audio.samplerate, audio.channels, audio.frames, audio.format, audio.subtype, converted_from)


def _sph_length(audio: soundfile.SoundFile) -> int:
    with Path(os.fsdecode(audio.name)).open("rb") as file:
        match = _SPH_LENGTH.search(file.read(_SPH_HEAD))
    return int(match[1]) if match else 0


class Powers:
    """The powers of the channels of a recording and of their mean, added up while `mono_blocks` averages them."""

    def __init__(self) -> None:
        self.channels = self.mean = 0.0

    @property
    def cancel(self) -> bool:
        """Whether the mean is 30 dB or more below the channels, as with opposite phases."""
        return self.mean < self.channels / 1000

    @property
    def differ(self) -> bool:
        """Whether the channels have little in common, as in a call with a speaker a channel, or most are silent.

        The mean of two channels that have nothing in common has half of their power, and of more channels less.
        """
        return not self.cancel and self.mean < 0.6 * self.channels


def mono_blocks(
    audio: soundfile.SoundFile,
    name: str | Path,
    start: int = 0,
    wanted: int | None = None,
    largest: int = BLOCK_SAMPLES,
    channel: int | None = None,
    complete: bool = True,
    powers: Powers | None = None,
) -> Iterator[np.ndarray]:
    """Decode samples in blocks, so that a wrong length in a header cannot take more memory than the file's samples.

    Args:
        audio: Open file that `sound_info` accepts.
        name: Name of the file in error messages.
        start: Index of the first frame.
        wanted: Number of frames to decode; by default all frames to the end of the file.
        largest: Maximum number of frames in a block; blocks of many channels have fewer.
        channel: The channel to decode, from 0; by default all are averaged.
        complete: Whether fewer frames than wanted are an error.
        powers: If given, the powers of the channels and of their mean are added to it where channels are averaged.

    Yields:
        Blocks (L,) float32 at the rate of the file.

    Raises:
        DataError: The file is damaged or truncated, or holds NaN, infinite or unscaled samples.
    """
    wanted, read = audio.frames - start if wanted is None else wanted, 0
    channel = 0 if audio.channels == 1 else channel
    if start:
        _decode(name, audio.seek, start)
    while read < wanted:
        frames = min(wanted - read, largest, BLOCK_SAMPLES // audio.channels)
        block = _decode(name, audio.read, frames, dtype="float32", always_2d=True)
        if not len(block):
            break
        mono = block.mean(axis=1) if channel is None else block[:, channel]
        _check_samples(name, mono, audio.samplerate, start + read)
        if powers is not None and channel is None:
            powers.channels += float(np.square(block, dtype=np.float64).sum()) / audio.channels
            powers.mean += float(np.square(mono, dtype=np.float64).sum())
        read += len(block)
        yield mono
    # The length of mp3 and the like is partly an estimate.
    if complete and read < (wanted if audio.format in ("WAV", "WAVEX", "FLAC") else 0.9 * wanted):
        raise TruncatedError(f"{name}: holds {read} of {wanted} samples; the file is truncated, get it again")


def _decode(name: str | Path, step: Callable, *args, **kwargs):
    try:
        return step(*args, **kwargs)
    except RuntimeError as error:
        raise DataError(f"{name}: cannot be decoded ({error_reason(error)}); the file is damaged") from error


def _check_samples(name: str | Path, samples: np.ndarray, rate: int, start: int) -> None:
    finite = np.isfinite(samples)
    if not finite.all():
        first = (start + int(np.argmin(finite))) / rate
        raise DataError(f"{name}: holds NaN or infinite samples, the first at {first:.3f} s; make it again")
    peak = float(np.abs(samples).max(initial=0.0))
    if peak > LOUDEST:
        raise DataError(f"{name}: samples reach {peak:g}; floating-point audio must lie between -1 and 1: scale it")


def error_reason(error: Exception) -> str:
    """libsndfile's message without the path, which our message already gives."""
    reason = str(error).rpartition(": ")[2].strip().rstrip(".")
    return _NOT_KNOWN if reason == _NO_FILE else reason
