"""Bodies of requests: received with a limit on their total memory and a minimum rate, and read as recordings.

A form is parsed as it comes. Its file stays in memory: uploads are never written to disk under a name.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from espnet_diverse.audio.sources import open_audio
from espnet_diverse.errors import DataError
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.refusals import RefusedError, busy

GRACE_SECONDS = 10.0
LEAST_RATE = 20_000
"""Bytes a second that an upload must send; it may fall behind by `GRACE_SECONDS`, however fast it was before."""
_SMALL = 20, 10
"""A body of up to 1/20 of the limit of a file is small; small ones have a tenth of the memory of all for themselves."""
_LENGTH = re.compile("[0-9]{1,15}")
_FIELDS_BYTES = 100_000  # of a form without its file
_FIELDS = 50


class Upload(NamedTuple):
    """A file, its name, and the other fields of its form; a field may come several times."""

    content: bytes
    name: str
    fields: list[tuple[str, str]]


class _Form(MultiPartParser):
    spool_max_size = 1 << 40  # files stay in memory; `Bodies` bounds their size


class Bodies:
    """Receives bodies. Memory is taken as bytes arrive; large uploads take none from small ones.

    Args:
        limits: Limits of a request, and of all bodies together.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        size, share = _SMALL
        self._small_bytes = limits.bytes // size
        most = max(limits.bytes + _FIELDS_BYTES, int(limits.all_megabytes * 1e6))
        self._left = {"large": most, "small": most // share}

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, held until the block ends.

        Raises:
            RefusedError: The body has no valid length, is too large or too slow, or the bodies of all requests together
                are too large.
            ClientDisconnect: The client has disconnected.
        """
        with self._held(request) as take:
            yield b"".join([chunk async for chunk in self._chunks(request, self.limits.bytes, take)])

    @asynccontextmanager
    async def upload(self, request: Request) -> AsyncIterator[Upload]:
        """The form of a request, with one `file`, held until the block ends.

        Raises:
            RefusedError: See `body`; or the body is not a form, or has no file or several.
            ClientDisconnect: The client has disconnected.
        """
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "multipart/form-data":
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the content type must be multipart/form-data")
        with self._held(request) as take:
            chunks = self._chunks(request, self.limits.bytes + _FIELDS_BYTES, take)
            form = _Form(request.headers, chunks, max_files=1, max_fields=_FIELDS, max_part_size=_FIELDS_BYTES)
            try:
                parsed = await form.parse()
            except (MultiPartException, KeyError) as error:  # a form without a boundary
                reason = str(getattr(error, "message", error)).rstrip(".")
                raise RefusedError(
                    HTTPStatus.BAD_REQUEST, f"the form cannot be read ({reason}); send one file"
                ) from error
            fields, file = parsed.multi_items(), parsed.get("file")
            if not isinstance(file, UploadFile):
                raise RefusedError(HTTPStatus.BAD_REQUEST, "file is missing; send a recording", param="file")
            content = await file.read()
            await parsed.close()
            texts = [(name, value) for name, value in fields if isinstance(value, str)]
            yield Upload(content, file.filename or "the recording", texts)

    @contextmanager
    def _held(self, request: Request) -> Iterator[Callable[[int], None]]:
        """Yield a function that reserves bytes, which are released at the end of the block."""
        length = request.headers.get("Content-Length", "")
        kind = "small" if _LENGTH.fullmatch(length) and int(length) <= self._small_bytes else "large"
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self._left[kind]:
                raise busy("too many uploads are on their way; try again later", "uploads")
            self._left[kind] -= size
            taken += size

        try:
            yield take
        finally:
            self._left[kind] += taken

    async def _chunks(self, request: Request, most: int, take: Callable[[int], None]) -> AsyncGenerator[bytes, None]:
        """The parts of a body as they come."""
        length = request.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length):
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "the request has no valid Content-Length; send one")
        if int(length) > most:
            size, limit = int(length) / 1e6, self.limits.megabytes
            message = f"the file has {size:.1f} MB; the limit is {limit:g} MB; cut it, or see --max_megabytes"
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        remaining, stream = GRACE_SECONDS, request.stream()
        while True:
            began = time.monotonic()
            try:
                chunk = await asyncio.wait_for(anext(stream), max(0.0, remaining))
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                slow = f"the upload is too slow; at least {LEAST_RATE // 1000} kB a second are expected"
                raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, slow) from error
            remaining = min(GRACE_SECONDS, remaining - (time.monotonic() - began) + len(chunk) / LEAST_RATE)
            take(len(chunk))
            yield chunk


def samples_of(body: bytes, name: str, max_seconds: float, rate: int) -> NDArray[np.float32]:
    """Samples (L,) float32 at `rate` of a recording in any format; `name` is only for messages.

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
