"""HTTP server of the page, for this machine alone.

The server listens on 127.0.0.1. Other pages in the same browser can still send requests to it, so it answers only
requests that its own page can send. The Host header must name this machine, which prevents DNS rebinding; the Origin
must be that host; and a body must have a content type that other origins can only send with the server's consent, which
it never gives. Nothing is written to disk, and the page loads nothing from other hosts.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import BoundedSemaphore, Thread, current_thread
from typing import Protocol
from urllib.parse import parse_qsl

from espnet_diverse.demo.limits import Limits
from espnet_diverse.demo.uploads import Refusal, RefusedError, Uploads, close_politely
from espnet_diverse.errors import ConfigError, UserError

HOST = "127.0.0.1"
BODY = "application/octet-stream"
_LAST_ANSWERS = 2.0
"""Seconds that answers get when the server ends; a long recording is not waited for."""
_HOSTS = (HOST, "localhost")  # with any port, because a tunnel may have another one
_LENGTH = re.compile("[0-9]{1,15}")
_SCRIPTS = ("page.js", "result.js", "recording.js", "live.js", "microphone.js")
_STATIC = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    **{f"/{name}": (name, "text/javascript; charset=utf-8") for name in _SCRIPTS},
}
_SERVED = {"/run": "run", "/heads": "heads", "/live/begin": "begin", "/live/part": "hear"}
"""Methods of the service by path."""
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
}


class Service(Protocol):
    """Interface of the service behind the page; `choices` are the values of its controls by name."""

    def about(self) -> dict:
        """Describe the model and the choices."""

    def run(self, body: bytes, choices: Mapping[str, str]) -> dict:
        """Transcribe a recording, or translate a text."""

    def heads(self, body: bytes, choices: Mapping[str, str]) -> dict:
        """Plot the attention heads of a result."""

    def begin(self, body: bytes, choices: Mapping[str, str]) -> dict:
        """Begin a recording that is transcribed while somebody speaks."""

    def hear(self, body: bytes, choices: Mapping[str, str]) -> dict:
        """Hear the next part of that recording."""


class Server(ThreadingHTTPServer):
    """Serves the page on 127.0.0.1.

    Args:
        port: Port to listen on; 0 is any free port.
        limits: Limits of the requests.

    Attributes:
        service: The service behind the page; must be set before the first request.
        url: Address of the page.

    Raises:
        ConfigError: The port is out of range or in use.
    """

    daemon_threads = True
    request_queue_size = 256  # connections that wait to be accepted; the system resets more
    service: Service

    def __init__(self, port: int, limits: Limits):
        self.limits, self.places = limits, BoundedSemaphore(limits.waiting)
        self.uploads = Uploads(limits.waiting * limits.bytes)
        self.answering: set[Thread] = set()
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "a port is a number from 0 to 65535"
            raise ConfigError(f"--port {port}: {reason}; give another one, or 0 for any free port") from error
        self.url = f"http://{HOST}:{self.server_port}/"

    def process_request_thread(self, request, client_address) -> None:
        """Answer one request, in a thread of its own."""
        self.answering.add(current_thread())
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.answering.discard(current_thread())

    def server_close(self) -> None:
        """Stop listening, and wait a moment for answers that are nearly written: a process that ends beneath a thread
        may abort."""
        super().server_close()
        end = time.monotonic() + _LAST_ANSWERS
        for thread in self.answering.copy():
            thread.join(max(0.0, end - time.monotonic()))


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "espnet-diverse", ""
    timeout = 30.0  # seconds without a byte

    def do_GET(self) -> None:  # noqa: N802, a name of the standard library
        path = self.path.partition("?")[0]
        if refusal := self._wrong_origin():
            self._refuse(refusal)
        elif path == "/about":
            self._answer(lambda: self.server.service.about())
        elif path in _STATIC:
            name, kind = _STATIC[path]
            self._send(HTTPStatus.OK, kind, files(__package__).joinpath("page", name).read_bytes())
        else:
            self._refuse(Refusal(HTTPStatus.NOT_FOUND, f"{path}: not found; open {self.server.url}"))

    def do_POST(self) -> None:  # noqa: N802
        path, _, query = self.path.partition("?")
        served = _SERVED.get(path)
        if refusal := self._wrong_origin() or self._unfit(served):
            self._refuse(refusal)
            return
        try:
            with self.server.uploads.receive(self.connection, self.rfile, int(self.headers["Content-Length"])) as body:
                if body is not None:
                    self._serve(served, body, dict(parse_qsl(query)))
        except RefusedError as error:
            self._refuse(error.refusal)

    def _serve(self, served: str, body: bytes, choices: dict[str, str]) -> None:
        if not self.server.places.acquire(blocking=False):
            busy = f"{self.server.limits.waiting} requests are already waiting; try again later"
            raise RefusedError(Refusal(HTTPStatus.SERVICE_UNAVAILABLE, busy))
        try:
            self._answer(lambda: getattr(self.server.service, served)(body, choices))
        finally:
            self.server.places.release()

    def _wrong_origin(self) -> Refusal | None:
        """The refusal of a request that is not from our page."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host.partition(":")[0].lower() not in _HOSTS:
            return Refusal(HTTPStatus.FORBIDDEN, f"host {host!r} is not this machine; open {self.server.url}")
        if origin not in (None, f"http://{host}"):
            return Refusal(HTTPStatus.FORBIDDEN, f"requests from {origin!r} are not served; open {self.server.url}")
        return None

    def _unfit(self, served: str | None) -> Refusal | None:
        """The refusal of a request whose path or body is not valid."""
        if served is None:
            return Refusal(HTTPStatus.NOT_FOUND, f"{self.path}: not found; open {self.server.url}")
        if self.headers.get("Content-Type") != BODY:
            return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type must be {BODY}")
        length = self.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length):
            return Refusal(HTTPStatus.LENGTH_REQUIRED, "the request has no valid Content-Length; send one")
        if int(length) > self.server.limits.bytes:
            size, most = int(length) / 1e6, self.server.limits.megabytes
            message = f"the file has {size:.1f} MB; the limit is {most:g} MB; cut it, or see --max_megabytes"
            return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        return None

    def _answer(self, serve: Callable[[], dict]) -> None:
        try:
            answer, status = serve(), HTTPStatus.OK
        except RefusedError:
            raise
        except UserError as error:
            answer, status = {"error": str(error)}, HTTPStatus.BAD_REQUEST
        except Exception as error:  # of any kind, because a request must not stop the server
            logging.exception("a request failed")
            message = f"the model failed ({type(error).__name__}); see the terminal of espnet-diverse demo for details"
            answer, status = {"error": message}, HTTPStatus.INTERNAL_SERVER_ERROR
        self._send(status, "application/json", json.dumps(answer, ensure_ascii=False, allow_nan=False).encode())

    def _refuse(self, refusal: Refusal) -> None:
        self._send(refusal.status, "application/json", json.dumps({"error": refusal.message}).encode())
        if self.command == "POST":
            self.close_connection = True
            close_politely(self.connection)

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        try:
            self.send_response(status)
            for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:  # the page was closed
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Log requests instead of printing them."""
        logging.info("%s %s", self.address_string(), format % args)
