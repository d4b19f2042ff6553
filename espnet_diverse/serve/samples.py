"""Samples of an uploaded recording."""

from io import BytesIO

from numpy.typing import NDArray

from espnet_diverse.audio.sources import open_audio
from espnet_diverse.errors import DataError


def samples_of(body: bytes, name: str, max_seconds: float, rate: int) -> NDArray:
    """Samples (L,) float32 at `rate` of a recording in any format; its name is for messages alone.

    Raises:
        DataError: The recording cannot be read, is longer than `max_seconds`, or has no sample at `rate`.
    """
    upload = BytesIO(body)
    upload.name = name
    with open_audio(upload, target_rate=rate, at_most=max_seconds + 1) as audio:
        if audio.duration > max_seconds:
            raise DataError(
                f"{name} lasts {audio.duration:.1f} seconds; the limit is {max_seconds:g} seconds; cut it, or start "
                "the server with a larger --max_seconds"
            )
        return audio.samples(least=1)
