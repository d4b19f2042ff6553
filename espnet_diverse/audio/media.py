"""Conversion by ffmpeg of files that libsndfile cannot read, such as m4a, mp4, webm, wma, amr and aac.

Files that `truncation` reports are converted too. The format is detected from the first bytes and passed to ffmpeg;
otherwise ffmpeg would guess it, and could open a playlist, which names other files. ffmpeg is called without a shell
and may read no other file.
"""

import logging
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.audio.resampling import RATE
from espnet_diverse.audio.suffixes import TO_CONVERT
from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.output_limits import MOST_SECONDS, most_bytes, too_large

log = logging.getLogger(__name__)

_ERROR = re.compile(r"^(?:\[[^]]* @ [^]]*\] )?\[(?:error|fatal)\] (.*)$", re.MULTILINE)
_BLOCK = 1 << 16  # bytes by which ffmpeg may stay below its limit
_ROUNDING = 0.05  # seconds by which a resampled recording may be shorter
_TRACK = re.compile(r"^ *(?:\[info\])? *Stream #0:(\d+)\S*: Audio:", re.MULTILINE)
_MAPPED = re.compile(r"Stream #0:(\d+) -> #0:0")
_TIMED = re.compile("Input #0, (?:matroska|avi|flv)")
_DURATION = re.compile(r"Duration: (\d+):(\d+):([\d.]+)")


class MediaFormat(NamedTuple):
    """A file format.

    Attributes:
        title: Name in messages.
        demuxer: ffmpeg's name of its demuxer.
        is_strict: Whether any error of ffmpeg means a faulty file. In an mp3, tags between recordings are errors, too.
        seconds: Least length by the headers of its recordings, between which ffmpeg 5 loses frames of a flac.
    """

    title: str
    demuxer: str
    is_strict: bool = True
    seconds: float = 0.0


_MP4 = MediaFormat("MPEG-4 (m4a, mp4, mov)", "mov")
_SIGNATURES = {
    (4, b"ftyp"): _MP4,
    (4, b"moov"): _MP4,
    (4, b"mdat"): _MP4,
    (0, b"\x1a\x45\xdf\xa3"): MediaFormat("Matroska (webm, mkv)", "matroska"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11"): MediaFormat("Windows Media (wma)", "asf"),
    (0, b"#!AMR"): MediaFormat("AMR", "amr"),
    (8, b"AVI "): MediaFormat("AVI", "avi"),
    (0, b"FLV\x01"): MediaFormat("Flash video", "flv"),
    (0, b"\0\0\x01\xba"): MediaFormat("MPEG program stream (mpg, vob)", "mpeg"),
    (0, b"wvpk"): MediaFormat("WavPack", "wv"),
}
_AAC = MediaFormat("AAC", "aac")
_TRANSPORT_STREAM = MediaFormat("MPEG transport stream (ts)", "mpegts")
_PACKETS = ((0, 188), (4, 192))  # offset and length of packets of a transport stream, which begin with "G"


def media_format(path: Path) -> MediaFormat | None:
    """Detect from the first bytes a format that ffmpeg is needed for; None for other files."""
    with path.open("rb") as file:
        head = file.read(1024)
    for (offset, signature), known in _SIGNATURES.items():
        if head[offset:].startswith(signature):
            return known
    if head.startswith(b"\x0b\x77") and len(head) > 5:  # the version of the bit stream tells which of the two
        return MediaFormat("Enhanced AC-3", "eac3") if head[5] >> 3 > 10 else MediaFormat("AC-3", "ac3")
    if any(head[first::size].startswith(b"GGG") for first, size in _PACKETS):
        return _TRANSPORT_STREAM
    # ADTS: a sync word of twelve bits, and a layer of 0, which mp3 never has.
    return _AAC if len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0 else None


def convert(
    path: Path, name: str, kind: MediaFormat, wav: Path, rate: int = RATE, at_most: float | None = None
) -> None:
    """Write an audio track of a file as 16-bit wav with one or two channels; of several tracks, ffmpeg's default.

    At 16 kHz the wav has 115 MB an hour and channel. More than two channels are mixed to two.

    Args:
        path: Path of the file.
        name: Name of the file in error messages.
        kind: Format of the file.
        wav: Path of the wav file to write.
        rate: Sampling rate of the wav file in Hz.
        at_most: Seconds to convert; by default the whole file.

    Raises:
        DataError: There is no ffmpeg, or the file has no audio, is damaged, or holds more than
            `output_limits.most_bytes`.
    """
    program = _program()
    if program is None:
        reason = f"is {kind.title}, which only ffmpeg reads, and no ffmpeg is installed"
        remedy = "install ffmpeg or espnet_diverse[media], or convert it elsewhere: ffmpeg -i X Y.wav"
        raise DataError(f"{name}: {reason}; {remedy}")
    source = ("-protocol_whitelist", "file", "-f", kind.demuxer, "-i", f"file:{path.absolute()}")
    strict = ("-xerror",) if kind.is_strict else ()
    limit = () if at_most is None else ("-t", f"{at_most:g}")
    # Each recording in a file may begin at time 0, so samples get times by their number. The 32-bit header of wav holds
    # at most 37 hours, RF64 more.
    filters = "asetpts=N/SR/TB,aformat=channel_layouts=mono|stereo"
    samples = ("-af", filters, "-ar", str(rate), "-c:a", "pcm_s16le")
    most = most_bytes(path)
    target = (*samples, "-f", "wav", "-rf64", "auto", "-fs", str(most), "-y", f"file:{wav}")
    command = [program, "-nostdin", "-hide_banner", "-nostats", "-v", "level+info", *strict, *source, *limit, *target]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired as error:
        reason = f"ffmpeg has not read it in {MOST_SECONDS:.0f} s"
        raise DataError(f"{name}: {reason}; {TO_CONVERT}") from error
    if not done.returncode and wav.stat().st_size >= most - _BLOCK:
        raise DataError(f"{name}: {too_large(most)}")
    message = done.stderr.decode("utf-8", "replace")
    fault = _fault(message, done.returncode, wav, rate, at_most, kind.seconds)
    if fault:
        reason = f"ffmpeg cannot read it as {kind.title} ({fault})"
        raise DataError(f"{name}: {reason}; get it again, or {TO_CONVERT}")
    tracks = _tracks(message)
    if tracks[1:] and (read := _MAPPED.search(message)):
        _tell_of_tracks(name, len(tracks), tracks.index(read[1]) + 1)


@cache  # a file may be opened several times
def _tell_of_tracks(name: str, count: int, number: int) -> None:
    reason = f"has {count} audio tracks, and number {number} is read, ffmpeg's choice"
    log.warning("notice: %s: %s; for another: ffmpeg -i X -map 0:a:N Y.wav, with N from 0", name, reason)


def _tracks(log: str) -> list[str]:
    """The numbers of the audio tracks of the file, as ffmpeg's messages name them."""
    return _TRACK.findall(log.partition("Output #0")[0])


def _fault(log: str, code: int, wav: Path, rate: int, at_most: float | None, expected: float) -> str | None:
    """The fault that ffmpeg found, or None.

    Args:
        log: Messages of ffmpeg.
        code: Exit code of ffmpeg.
        wav: Path of the wav file that ffmpeg wrote.
        rate: Its sampling rate.
        at_most: Seconds that were to be converted.
        expected: Least length in seconds, 0 if it is not known.
    """
    errors = _ERROR.findall(log)
    if code or "partial file" in " ".join(errors):
        if "does not contain any stream" in log:
            return "it has no audio track"
        return errors[0].strip() if errors else f"exit code {code}"
    channels = 2 if ", stereo," in log.partition("Output #0")[2] else 1
    seconds, least = wav.stat().st_size / 2 / channels / rate, expected - _ROUNDING
    # A truncated file of these formats is no error for ffmpeg. The duration in its header is for the longest track, so
    # it helps only for files of one track. Streams (ac3, mpg, ts) have none: any part of one is whole.
    duration = _DURATION.search(log)
    if duration and _TIMED.search(log) and "Video:" not in log and len(_tracks(log)) == 1:
        hours, minutes, remainder = map(float, duration.groups())
        expected = 3600 * hours + 60 * minutes + remainder
        least = 0.9 * expected
    if at_most is not None:
        expected, least = min(expected, at_most), min(least, 0.9 * at_most)
    return f"it ends at {seconds:.1f} of {expected:.1f} s" if seconds < least else None


def _program() -> str | None:
    """ffmpeg of the system, or of the extra `media`."""
    program = shutil.which("ffmpeg")
    if program is not None:
        return program
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):
        return None
