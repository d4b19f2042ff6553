"""Writing mono audio as 16-bit wav or flac. 16-bit samples that were read are written back bit for bit."""

from pathlib import Path

import numpy as np
import soundfile

from espnet_diverse.audio.libsndfile import error_reason
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.errors import DataError


def write_audio(path: Path, samples: np.ndarray, rate: int = RATE) -> None:
    """Write samples (T,) float32 at `rate` Hz as 16-bit wav or flac, by the suffix of `path`.

    The scale is 2^15, which reading undoes exactly; libsndfile's own conversion from float uses 2^15 - 1.

    Raises:
        DataError: The file cannot be written.
    """
    integers = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)
    try:
        soundfile.write(path, integers, rate, subtype="PCM_16")
    except RuntimeError as error:
        raise DataError(f"{path}: cannot be written ({error_reason(error)}); is the disk full?") from error
