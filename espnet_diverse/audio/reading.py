"""The reader of audio files, for preparation, decoding and transcription alike.

libsndfile decodes most files directly: wav, flac, mp3, ogg, opus, sph and more, and entries of arks. Other files are
first converted by ffmpeg to a temporary wav of the requested rate (`media.convert`): m4a, mp4, webm, wma, amr and
aac, and files that libsndfile does not read to the end, because their length is missing or wrong or they hold several
recordings.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.ark import ArkPart, ark_entry
from espnet_diverse.audio.libsndfile import (
    BLOCK_SAMPLES,
    AudioInfo,
    Powers,
    begins_as_audio,
    check_file,
    mono_blocks,
    open_sound,
    sound_info,
)
from espnet_diverse.audio.media import MediaFormat, convert, media_format
from espnet_diverse.audio.resampling import RATE, resample
from espnet_diverse.audio.segments import Segment, segment_fault
from espnet_diverse.audio.truncation import check_ogg, unread_bytes, unread_format
from espnet_diverse.errors import DataError, TruncatedError
from espnet_diverse.portable import unnamed_file
from espnet_diverse.untrusted.output_limits import most_bytes, too_large

_CHAINED_OGG = MediaFormat("concatenated ogg", "ogg")


@dataclass(frozen=True)
class AudioFile:
    """An open audio file, whose samples may be read more than once.

    Attributes:
        name: Name of the file in error messages.
        info: Header of the file; if the file was converted, the header of the temporary wav.
        path: Path that libsndfile decodes: the file or entry itself, or the temporary wav that it was converted to.
        complete: Whether it is an error that the file is truncated.
    """

    name: str
    info: AudioInfo
    path: Path
    complete: bool = True

    def blocks(
        self,
        start: int = 0,
        wanted: int | None = None,
        largest: int = BLOCK_SAMPLES,
        channel: int | None = None,
        powers: Powers | None = None,
    ) -> Iterator[NDArray]:
        """Decode samples in blocks; see `libsndfile.mono_blocks` for the arguments, the blocks and the errors."""
        with open_sound(self.path, self.name) as sound:
            yield from mono_blocks(sound, self.name, start, wanted, largest, channel, self.complete, powers)

    def fault_of(self, segment: Segment) -> str | None:
        """Return the reason why a segment is not in this file, or None."""
        info = self.info
        return segment_fault(segment, info.seconds, info.channels)

    def read(self, segment: Segment | None = None, powers: Powers | None = None) -> NDArray:
        """Samples (T,) float32 of the file, or of a segment of it, at its own rate, one channel or the mean of all.

        For `powers` see `libsndfile.mono_blocks`.

        Raises:
            DataError: The file is damaged or truncated, holds NaN, infinite or unscaled samples, or ends before the
                segment; or there are more samples, in 16 bits, than `output_limits.most_bytes` of the file.
        """
        start, wanted, channel = 0, None, None
        if segment is not None:
            fault = self.fault_of(segment)
            if fault:
                raise DataError(f"{self.name}: {fault}")
            start, channel = round(segment.start * self.info.rate), segment.channel
            wanted = round(min(segment.end * self.info.rate, self.info.frames)) - start
        size = 2 * self.info.channels * (self.info.frames if wanted is None else wanted)
        if self.path.is_file() and size > (most := most_bytes(self.path)):
            raise DataError(f"{self.name}: {too_large(most)}")
        return np.concatenate([np.zeros(0, np.float32), *self.blocks(start, wanted, channel=channel, powers=powers)])

    def unread_bytes(self) -> int:
        """Return the number of bytes after the samples that the header leaves out; see `truncation`."""
        return unread_bytes(self.path, self.name)

    def check_header(self) -> None:
        """Refuse a file whose header leaves samples out.

        Raises:
            DataError: After the samples there are more bytes.
        """
        if lost := self.unread_bytes():
            reason = f"its header leaves out {lost} bytes after the samples"
            raise DataError(f"{self.name}: {reason}; write the header again")

    def check(self) -> int:
        """Decode the file where its header cannot show all faults.

        Returns:
            Number of samples of the file.

        Raises:
            DataError: The file is damaged or truncated, or holds NaN, infinite or unscaled samples.
        """
        decoded = self.info.needs_decoding or not self.complete
        return sum(map(len, self.blocks())) if decoded else self.info.frames


@contextmanager
def open_file(
    path: Path,
    name: str | None = None,
    target_rate: int = RATE,
    at_most: float | None = None,
    complete: bool = True,
) -> Iterator[AudioFile]:
    """Open an audio file and check its header; a temporary wav, if any, lives until the block ends.

    Args:
        path: Path of the file, or an entry of an ark such as wav.1.ark:1234.
        name: Name of the file in error messages; by default the path.
        target_rate: Rate of a temporary wav in Hz. Files that are not converted keep their own rate.
        at_most: Seconds of the temporary wav; a longer recording is cut a little later.
        complete: Whether it is an error that the file is truncated.

    Raises:
        DataError: The file is missing, unreadable, empty, truncated (`TruncatedError`) or not audio, or needs ffmpeg,
            which is not installed.
    """
    name = str(path) if name is None else name
    with ExitStack() as stack:
        try:
            check_file(path, name)
            decodable, converted_from = _decodable(path, name, stack, target_rate, at_most, complete)
            with open_sound(decodable, name) as sound:
                info = sound_info(sound, name, converted_from, complete)
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"{name}: cannot be read ({reason}); correct the path or the file") from error
        yield AudioFile(name, info, decodable, complete)


def read_audio(path: Path, segment: Segment | None = None, target_rate: int = RATE) -> tuple[NDArray, int]:
    """Read a file, or one segment of it, at its own rate; for `target_rate` see `open_file`.

    Returns:
        Samples (T,) float32, the channels averaged, and the sampling rate in Hz.

    Raises:
        DataError: See `open_file` and `AudioFile.read`.
    """
    with open_file(path, target_rate=target_rate) as file:
        return file.read(segment), file.info.rate


def read_at(path: Path, target_rate: int, segment: Segment | None = None) -> tuple[NDArray, float]:
    """Read a file, or one segment of it, at a given rate.

    Returns:
        Samples (T,) float32 at `target_rate`, the channels averaged, and their duration in seconds.

    Raises:
        DataError: See `open_file` and `AudioFile.read`.
    """
    samples, rate = read_audio(path, segment, target_rate)
    return resample(samples, rate, target_rate=target_rate), len(samples) / rate


def is_recording(path: Path) -> bool:
    """Return whether the first bytes of a file are those of a recording that can be read; False if it cannot be."""
    try:
        if not path.is_file():
            return False
        return begins_as_audio(path) or media_format(path) is not None
    except OSError:
        return False


def inspect_audio(path: Path) -> AudioInfo:
    """Read the header of a file; a file that only ffmpeg reads is decoded.

    Raises:
        DataError: See `open_file`.
    """
    with open_file(path) as file:
        return file.info


def _decodable(
    path: Path, name: str, stack: ExitStack, rate: int, at_most: float | None, complete: bool
) -> tuple[Path, str]:
    """The file that libsndfile reads: the file itself, or a temporary wav and the format it was converted from."""
    entry, is_chained = ark_entry(path), False
    if entry:
        with ArkPart(entry, name) as part:
            return path, part.kind
    with nullcontext() if complete else suppress(TruncatedError):
        is_chained = check_ogg(path, name)
    kind = _CHAINED_OGG if is_chained else media_format(path) or unread_format(path, name)
    if kind is None:
        return path, ""
    wav = stack.enter_context(unnamed_file())
    convert(path, name, kind, wav, rate, at_most)
    return wav, kind.title
