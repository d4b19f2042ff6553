"""TLS connections that do not fail because another one has failed.

OpenSSL keeps a queue of errors for each thread. Some versions of Python, such as 3.13.5 with OpenSSL 3.5, leave an
error of the operating system in it when the other side of a connection has died, also when its end is read, because
OpenSSL answers with an alert. The next connection of the thread that has nothing to read then raises this error
(python/cpython#148594), and Dask closes it: a scheduler that loses a worker would lose the others and its client.

Dask can also load this module by its option `--preload`.
"""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_ANY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class SeparateSocket(ssl.SSLSocket):
    """A TLS socket that leaves no error to other ones."""

    def do_handshake(self, *args: Any) -> None:
        """See `ssl.SSLSocket`."""
        _leaving_no_error(super().do_handshake, *args)

    def read(self, *args: Any) -> Any:
        """See `ssl.SSLSocket`; its methods that receive call this one."""
        return _leaving_no_error(super().read, *args)

    def send(self, *args: Any) -> int:
        """See `ssl.SSLSocket`."""
        return _leaving_no_error(super().send, *args)


def _leaving_no_error(call: Callable, *args: Any) -> Any:
    try:
        return call(*args)
    except ssl.SSLError:  # Python has emptied the queue
        raise
    except OSError:
        with suppress(ssl.SSLError):  # it is no certificate; Python reports that, and empties the queue
            _ANY.load_verify_locations(cadata=b"-")
        raise


def separate_connections() -> None:
    """Make all TLS connections that this process opens from now on a `SeparateSocket`."""
    ssl.SSLContext.sslsocket_class = SeparateSocket


@contextmanager
def separated_connections() -> Iterator[None]:
    """`separate_connections` while the context is open."""
    before = ssl.SSLContext.sslsocket_class
    separate_connections()
    try:
        yield
    finally:
        ssl.SSLContext.sslsocket_class = before


def dask_setup(server: Any) -> None:
    """Called by Dask when a scheduler or worker that preloads this module starts."""
    separate_connections()
