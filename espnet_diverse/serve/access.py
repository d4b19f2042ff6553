"""Access control of a server, and security headers of its answers.

A server without a key is for this machine alone. Pages of other hosts can still send requests to it from a browser on
this machine, so it answers only requests that this machine or its own page can send: the Host header must name this
machine, which prevents DNS rebinding, and the Origin must be that host. A server with a key answers everyone who has
the key; in a browser, only its own page may send requests. The page loads nothing from other hosts.
"""

import asyncio
import hmac
import logging
import time
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import quote

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from espnet_diverse.serve.metrics import METRICS
from espnet_diverse.serve.openapi import METRICS_PATH, PATHS
from espnet_diverse.serve.refusals import RefusedError, error_response, unavailable

log = logging.getLogger(__name__)
OPEN_TO_ALL = ("/health",)
"""Paths that need no key: they reveal nothing about models or callers."""
_HOSTS = ("127.0.0.1", "localhost")  # with any port, because a tunnel may have another one
_MOST = 1000  # requests and streams at a time
_LINGER_SECONDS = 30.0
_SILENT_SECONDS = 3.0  # of a client while the server lingers
_PAUSE_SECONDS = 0.02  # between the parts read while lingering, so that other clients come first
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src data:",
        "media-src blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "espnet-diverse",
}


class Access:
    """An application that answers only permitted requests.

    Args:
        app: The application.
        url: Address of the server, for messages.
        key: Key that requests must send as bearer token; None for this machine alone.

    Attributes:
        running: Number of requests and streams that the application is answering.
        is_draining: Whether the server is about to end, so that new requests are refused.
    """

    def __init__(self, app: ASGIApp, url: str, key: str | None = None):
        self.app, self.url, self.key = app, url, key
        self.running, self.is_draining = 0, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, answer = time.monotonic(), _Answer(scope, receive, send)
        try:
            self._check(scope)
        except RefusedError as error:
            await error_response(error)(scope, answer.receive, answer.send)
        else:
            self.running += 1
            try:
                await self.app(scope, answer.receive, answer.send)
            except asyncio.CancelledError:  # the server ends
                if scope["type"] == "http" and not answer.has_begun:
                    ended = unavailable("the server ends before the answer; try again later", "draining")
                    await error_response(ended)(scope, answer.receive, answer.send)
                raise
            finally:
                self.running -= 1
        finally:  # also after an error of the application, which has answered with status 500
            client = (scope.get("client") or ("",))[0]
            path = quote(scope["path"])  # where %0a was decoded to a line end
            seconds = time.monotonic() - began
            METRICS.answered(path if path in PATHS else "other", answer.status, seconds)
            log.info("%s %s %s %s %.2f s", client, scope["type"], path, answer.status, seconds)

    def _check(self, scope: Scope) -> None:
        """Refuse a request that nobody may send, from elsewhere or without a key, or that the server cannot take now.

        Raises:
            RefusedError: With the reason.
        """
        headers = Headers(scope=scope)
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if self.key is None and host.partition(":")[0].lower() not in _HOSTS:
            raise RefusedError(HTTPStatus.FORBIDDEN, f"host {host!r} is not this machine; open {self.url}")
        allowed = [f"http://{host}"] if self.key is None else [f"http://{host}", f"https://{host}"]  # behind a proxy
        if origin is not None and origin not in allowed:
            raise RefusedError(HTTPStatus.FORBIDDEN, f"requests from {origin!r} are not served; open {self.url}")
        if self.is_draining and scope["path"] != METRICS_PATH:
            raise unavailable("the server is about to end; try again later", "draining")
        if self.running >= _MOST:
            raise unavailable(f"{self.running} requests are being answered; try again later", "connections")
        if self.key is None or scope["path"] in OPEN_TO_ALL:
            return
        kind, _, token = headers.get("Authorization", "").partition(" ")
        coded = (token.strip(" \t").encode(code) for code in ("latin-1", "utf-8"))  # clients send either encoding
        same = any(hmac.compare_digest(encoded, self.key.encode()) for encoded in coded)
        if not same or kind.lower() != "bearer":
            message = "the key is missing or wrong; send the header Authorization: Bearer KEY"
            raise RefusedError(HTTPStatus.UNAUTHORIZED, message, "invalid_api_key")


class _Answer:
    """The answer to one request, with the common headers; it stays complete for a client that is still sending.

    Closing a connection whose client is still sending would reset it, and the answer would be lost; therefore the
    server continues to read for a moment.

    Attributes:
        status: Status of the answer.
        has_begun: Whether it was sent.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send):
        self._receive, self._send, self.status, self.has_begun = receive, send, 101, False
        headers = Headers(scope=scope)
        self._is_unread = headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", True):
            self._is_unread = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.status, self.has_begun = message["status"], True
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            if self._is_unread:
                headers["Connection"] = "close"
        if message["type"] == "http.response.body" and not message.get("more_body") and self._is_unread:
            await self._send({**message, "more_body": True})
            with suppress(TimeoutError), anyio.fail_after(_LINGER_SECONDS):
                while self._is_unread:
                    with anyio.fail_after(_SILENT_SECONDS):
                        await self.receive()
                    await anyio.sleep(_PAUSE_SECONDS)
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)
