"""Receiving the bodies of requests, with a limit on the memory of all requests together and a minimum rate."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from io import BufferedIOBase
from threading import Lock
from typing import NamedTuple

GRACE_SECONDS = 5.0
LEAST_RATE = 20_000
"""Bytes a second that an upload must reach on average, after `GRACE_SECONDS`."""
_LINGER_SECONDS = 3.0
_CHUNK = 1 << 16


class Refusal(NamedTuple):
    """The status and the message for a request that is refused."""

    status: HTTPStatus
    message: str


class RefusedError(Exception):
    """An upload that is not received to its end."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.message)
        self.refusal = refusal


class Uploads:
    """Receives bodies. A slow upload holds only the bytes that have arrived, so it keeps no place from others.

    Args:
        most: Bytes of all bodies together that are held at a time.
    """

    def __init__(self, most: int):
        self._left, self._lock = most, Lock()

    @contextmanager
    def receive(self, connection: socket.socket, file: BufferedIOBase, length: int) -> Iterator[bytes | None]:
        """Yield a body of `length` bytes, or None if the client has disconnected; it is held until the block ends.

        Args:
            connection: Connection of the request.
            file: The same connection, from which the headers were read.
            length: Length of the body.

        Raises:
            RefusedError: The upload is too slow, or the bodies of all requests together are too large.
        """
        body, began = bytearray(), time.monotonic()
        try:
            while len(body) < length:
                chunk = _next(connection, file, min(_CHUNK, length - len(body)), began, len(body))
                if not chunk:
                    yield None
                    return
                if not self._take(len(chunk)):
                    busy = "too many uploads are on their way; try again later"
                    raise RefusedError(Refusal(HTTPStatus.SERVICE_UNAVAILABLE, busy))
                body += chunk
            yield bytes(body)
        finally:
            self._take(-len(body))

    def _take(self, size: int) -> bool:
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True


def _next(connection: socket.socket, file: BufferedIOBase, most: int, began: float, received: int) -> bytes:
    left = GRACE_SECONDS + received / LEAST_RATE - (time.monotonic() - began)
    try:
        if left > 0:
            connection.settimeout(left)
            return file.read1(most)
    except TimeoutError:
        pass
    except ConnectionError:
        return b""
    slow = f"the upload is too slow; at least {LEAST_RATE // 1000} kB a second are expected"
    raise RefusedError(Refusal(HTTPStatus.REQUEST_TIMEOUT, slow))


def close_politely(connection: socket.socket) -> None:
    """Read on for a moment after an answer: closing at once would reset a client that is still sending, and lose it."""
    end = time.monotonic() + _LINGER_SECONDS
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(_LINGER_SECONDS)
        while time.monotonic() < end and connection.recv(_CHUNK):
            pass
