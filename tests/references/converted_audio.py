"""Audio that libsndfile alone does not read to its end: two seconds of a tone of 440 Hz in files of several kinds."""

import io
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_diverse.audio import media
from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.resampling import RATE, resample

SECONDS = 2.0
HERTZ = 440


def _programs() -> dict[str, str]:
    """The programs that are there: that of the system, and that of the extra."""
    programs = {}
    if (system := shutil.which("ffmpeg")) is not None:
        programs["system"] = system
    with suppress(ImportError, RuntimeError):
        import imageio_ffmpeg

        programs["wheel"] = imageio_ffmpeg.get_ffmpeg_exe()
    return programs


_PROGRAMS = _programs()


@pytest.fixture(scope="module", params=_PROGRAMS.values(), ids=_PROGRAMS)
def ffmpeg(request, tmp_path_factory) -> Iterator[None]:
    """Each ffmpeg that is there, in turn, as the first on PATH."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "ffmpeg").symlink_to(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        yield


def level(samples: np.ndarray) -> float:
    """The root of the mean square. It is that of the source in what a lossy coder gives back, unlike the peak."""
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def encoded(seconds: float = SECONDS, rate: int = 16_000, channels: int = 1, hertz: int = HERTZ, **options) -> bytes:
    """A tone at half of full scale in some format of libsndfile, mp3 by default."""
    mono = 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)
    file = io.BytesIO()
    soundfile.write(file, np.stack([mono] * channels, axis=1), rate, **({"format": "MP3"} | options))
    return file.getvalue()


def without_header(content: bytes) -> bytes:
    """An mp3 that libsndfile wrote, without the frame that counts its frames."""
    second = content.index(content[:2], 4)
    assert b"Info" in content[:second] or b"Xing" in content[:second]
    return content[second:]


def seconds_and_pitches(path: Path) -> tuple[float, list[float]]:
    """The length of a file in seconds, and the pitch in each of them."""
    samples, rate = read_audio(path)
    samples = resample(samples, rate)
    whole = [samples[start : start + RATE] for start in range(0, len(samples) - RATE + 1, RATE)]
    return len(samples) / RATE, [float(np.argmax(np.abs(np.fft.rfft(second)))) for second in whole]


def run_ffmpeg(*arguments: str | Path) -> bytes:
    """Run ffmpeg; what it writes to standard output."""
    command = [media._program(), "-v", "error", *arguments]
    return subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout


def through_ffmpeg(suffix: str) -> Callable[[Path], Path]:
    """A file of a kind that only ffmpeg reads."""

    def make(folder: Path) -> Path:
        (folder / "source.wav").write_bytes(encoded(rate=44_100, channels=2, format="WAV"))
        run_ffmpeg("-i", folder / "source.wav", folder / f"x.{suffix}")
        return folder / f"x.{suffix}"

    return make


def containing(name: str, make: Callable[[], bytes]) -> Callable[[Path], Path]:
    """A file of that name and content."""

    def write(folder: Path) -> Path:
        (folder / name).write_bytes(make())
        return folder / name

    return write


def unsized_wav() -> bytes:
    """A wav as written to a pipe, with the greatest size in its header."""
    content = bytearray(encoded(format="WAV", subtype="PCM_16"))
    content[4:8] = content[40:44] = struct.pack("<I", 0xFFFFFFFF)
    return bytes(content)


def piped_flac(folder: Path) -> Path:
    """A flac written to a pipe, in whose header the length could not be filled in."""
    (folder / "source.wav").write_bytes(encoded(rate=8000, format="WAV"))
    (folder / "x.flac").write_bytes(run_ffmpeg("-i", folder / "source.wav", "-f", "flac", "pipe:"))
    return folder / "x.flac"


OGG = {"format": "OGG", "subtype": "VORBIS"}
KINDS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "m4a": (through_ffmpeg("m4a"), "MPEG-4 (m4a, mp4, mov)"),
    "webm": (through_ffmpeg("webm"), "Matroska (webm, mkv)"),
    "concatenated mp3": (containing("x.mp3", lambda: encoded(1.0) + encoded(1.0, 44_100)), "concatenated mp3"),
    "concatenated ogg": (containing("x.ogg", lambda: encoded(1.0, **OGG) + encoded(1.0, **OGG)), "concatenated ogg"),
    "mp3 without its length": (
        containing("x.mp3", lambda: without_header(encoded(rate=44_100))),
        "mp3 without its length",
    ),
    "flac without its length": (piped_flac, "flac without its length"),
    "wav without its length": (containing("x.wav", unsized_wav), ""),
}
"""By kind what makes the file in a folder, and what its `AudioInfo.converted_from` is."""
