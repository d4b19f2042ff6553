"""Writing mono audio with 16 bits as wav, flac or an ark of flac, and as ogg.

16-bit samples are written exactly as they were read.
"""

import io
from pathlib import Path
from types import TracebackType

import kaldiio
import numpy as np
import soundfile

from espnet_diverse.audio.libsndfile import error_reason
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.audio.truncation import PAGE_HEAD, page_checksum
from espnet_diverse.errors import DataError


def write_audio(path: Path, samples: np.ndarray, rate: int = RATE) -> None:
    """Write samples (T,) float32 at `rate` Hz as 16-bit wav or flac, by the suffix of `path`.

    The scale is 2^15, which reading undoes exactly; libsndfile's own conversion from float uses 2^15 - 1.

    Raises:
        DataError: The file cannot be written.
    """
    try:
        soundfile.write(path, _sixteen_bits(samples), rate, subtype="PCM_16")
    except RuntimeError as error:
        raise DataError(f"{path}: cannot be written ({error_reason(error)}); is the disk full?") from error


def flac_bytes(samples: np.ndarray, rate: int) -> bytes:
    """Samples (T,) float32 at `rate` Hz as the content of a 16-bit flac file."""
    file = io.BytesIO()
    soundfile.write(file, _sixteen_bits(samples), rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def ogg_bytes(samples: np.ndarray, rate: int = RATE) -> bytes:
    """Samples (T,) float32 at `rate` Hz as the content of a file of Ogg Vorbis.

    Equal samples give equal bytes: the number of the stream is 0, which libsndfile draws anew for each file.
    """
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="OGG", subtype="VORBIS")
    content, pages = file.getvalue(), []
    while content:
        table = PAGE_HEAD + content[26]
        size = table + sum(content[PAGE_HEAD:table])
        page, content = bytearray(content[:size]), content[size:]
        page[14:18] = page[22:26] = bytes(4)
        page[22:26] = page_checksum(page).to_bytes(4, "little")
        pages.append(page)
    return b"".join(pages)


class ArkWriter:
    """Writes recordings to an ark through kaldiio, as flac.

    Args:
        path: The ark.
    """

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> "ArkWriter":
        self._file = self.path.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, name: str, samples: np.ndarray, rate: int) -> int:
        """Add samples (T,) float32; returns the byte at which they begin."""
        offset = self._file.tell() + len(f"{name} ".encode())
        coding = {"write_function": "soundfile", "write_kwargs": {"format": "FLAC", "subtype": "PCM_16"}}
        kaldiio.save_ark(self._file, {name: (rate, _sixteen_bits(samples))}, **coding)
        return offset


def _sixteen_bits(samples: np.ndarray) -> np.ndarray:
    """Samples float32 as int16, clipped to [-1, 1)."""
    return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)
