"""Applications of Starlette, and a server for an application on one port.

Uploads are never written to disk under a name, and no path of the disk is served.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self, cast

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ExceptionHandler
from uvicorn.protocols.http.h11_impl import H11Protocol

from espnet_diverse.cpu.allocator import return_freed_memory
from espnet_diverse.errors import ConfigError, UserError
from espnet_diverse.serve.access import Access
from espnet_diverse.serve.metrics import METRICS
from espnet_diverse.serve.refusals import RefusedError, handle_error, handle_http_error

HOST = "127.0.0.1"
KEY_VARIABLE = "ESPNET_DIVERSE_API_KEY"
_LAST_ANSWERS = 2  # seconds to finish answers when the server ends; it does not wait for a long recording
_SILENT_SECONDS = 30.0  # of a connection that sends no request
_MESSAGE_BYTES = 1 << 20  # of a websocket
_TICKS = 600  # of uvicorn, 0.1 seconds each, between two returns of freed memory
_LOGGED = ("Exception in ASGI application", "Invalid UTF-8 sequence", "ASGI callable returned without")
_GONE = 499  # status for the log and the metrics, as nginx writes it


def application(routes: Sequence[BaseRoute]) -> Starlette:
    """An application whose errors have OpenAI's form."""
    handlers: Mapping[Any, ExceptionHandler] = {
        RefusedError: handle_error,
        UserError: handle_error,
        HTTPException: handle_http_error,
        ClientDisconnect: _nobody,
        Exception: handle_error,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


async def in_thread[Result](function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function in a thread; the server does not wait for it when it ends."""
    return await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


async def _nobody(request: Request, error: Exception) -> Response:
    return Response(status_code=_GONE)  # nobody reads it


class Server:
    """The server of an application.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 is any free port.
        key: Key that requests must send; required unless the address is for this machine alone.
        drain_seconds: Maximum time that running requests have to end after SIGTERM.

    Attributes:
        url: Address of the server.

    Raises:
        ConfigError: The port is out of range or in use, the address is not one of this machine, or there is no key.
    """

    def __init__(self, port: int, host: str = HOST, key: str | None = None, drain_seconds: float = 0.0):
        if key is None and host not in (HOST, "localhost"):
            raise ConfigError(
                f"--host {host}: other machines would reach the server without a key; set the environment variable "
                f"{KEY_VARIABLE}, or leave --host out"
            )
        self.key, self.drain_seconds = key, drain_seconds
        try:
            self._socket = socket.create_server((host, port), backlog=256)
        except (OSError, OverflowError) as error:
            reason = "a port is a number from 0 to 65535"
            if isinstance(error, OSError):
                reason = str(error.strerror).partition(" (")[0]
            where = f"--port {port}" if host == HOST else f"--host {host} --port {port}"
            raise ConfigError(f"{where}: {reason}; give another one, or 0 for any free port") from error
        self.port = self._socket.getsockname()[1]
        self.url = f"http://{host}:{self.port}/"
        self._uvicorn: _Uvicorn | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()

    def run(self, app: Starlette) -> None:
        """Serve until `drain` or `stop`; Ctrl+C and SIGTERM end the process, and nothing after the call is done."""
        access = Access(app, self.url, self.key)
        config = uvicorn.Config(
            access,
            loop="asyncio",
            http=_Protocol,
            ws="websockets-sansio",
            ws_max_size=_MESSAGE_BYTES,
            ws_ping_timeout=None,  # on a busy server pongs wait behind samples; idle streams end by themselves
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_LAST_ANSWERS,
        )
        logging.getLogger("uvicorn.error").addFilter(_is_news)
        self._uvicorn = _Uvicorn(config, access, self.drain_seconds)
        try:
            self._uvicorn.run(sockets=[self._socket])
        except KeyboardInterrupt:
            _end_process()

    def drain(self) -> None:
        """Refuse new requests, and end `run` when the running ones have ended, or after `drain_seconds`."""
        assert self._uvicorn is not None
        self._uvicorn.drain()

    def stop(self) -> None:
        """End `run`, which another thread has called."""
        assert self._uvicorn is not None
        self._uvicorn.should_exit = True


def _end_process() -> NoReturn:
    """End this process as a signal does, but with the code 0 and after the last lines were written.

    Threads may still compute, and the destructors of PyTorch's libraries, which a usual end runs, may wait forever.
    """
    logging.shutdown()
    with suppress(OSError, ValueError):  # nobody reads it, or it is closed
        sys.stdout.flush()
    os._exit(0)


def _is_news(record: logging.LogRecord) -> bool:
    """Filter out what `as_refusal` or `Access` has logged: errors, and websockets that are closed or refused."""
    return not record.getMessage().startswith(_LOGGED)


class _Uvicorn(uvicorn.Server):
    """uvicorn's server; SIGTERM drains it first, and a second one ends it as Ctrl+C does.

    uvicorn itself closes its port at the first signal, so that new clients get no answer. Each minute, memory that is
    free between blocks of the heap is returned: recordings of ever new lengths leave such gaps, by which a busy server
    would grow for hours.
    """

    def __init__(self, config: uvicorn.Config, access: Access, drain_seconds: float):
        super().__init__(config)
        self._access, self._seconds, self._drained_at = access, drain_seconds, 0.0

    def drain(self) -> None:
        self._drained_at = time.monotonic() + self._seconds
        self._access.is_draining = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)  # in the end the signal is raised again, which ends the process
        if sig == signal.SIGTERM and not self._access.is_draining:
            self.should_exit = False
            self.drain()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            await in_thread(return_freed_memory)
        is_late = time.monotonic() >= self._drained_at
        is_drained = self._access.is_draining and (is_late or not self._access.running)
        return is_drained or await super().on_tick(counter)


class _Protocol(H11Protocol):
    """uvicorn's protocol; a connection is closed if it sends no request, or no further one after an answer.

    uvicorn limits only the time until the first byte of the next request.
    """

    _silence: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._silence = self.loop.call_later(_SILENT_SECONDS, self._close_if_silent)

    def send_400_response(self, msg: str) -> None:
        METRICS.add("refused_total", reason="invalid_http")
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        self._silence.cancel()
        self._silence = self.loop.call_later(_SILENT_SECONDS, self._close_if_silent)
        super().on_response_complete()

    def _close_if_silent(self) -> None:
        waits = self.cycle is None or self.cycle.response_complete
        is_ours = self in self.connections  # a websocket has left them
        if waits and is_ours and not self.transport.is_closing():
            self.transport.close()
