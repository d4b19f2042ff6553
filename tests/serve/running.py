"""A server of an application on a free port, in a thread, and what it has counted."""

import threading
import time
from contextlib import contextmanager

from espnet_diverse.serve.application import Server
from espnet_diverse.serve.metrics import METRICS

# A shell that runs the tests in the background has its children ignore Ctrl+C.
ENDLESS = """\
import ctypes, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
libc = ctypes.CDLL(None)
libc.__cxa_atexit(libc.pause, None, None)
"""
"""Code of a process that Ctrl+C reaches, and whose usual end, which runs destructors, would have no end."""


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def counted(name):
    """A number of the metrics of this process, such as refused_total{reason="queue"}; 0 before it is counted."""
    rows = dict(line.rsplit(" ", 1) for line in METRICS.text().splitlines() if not line.startswith("#"))
    return float(rows.get(f"espnet_diverse_{name}", 0))


@contextmanager
def running(app, **how):
    """The running server of an application."""
    with Server(0, **how) as server:
        thread = threading.Thread(target=server.run, args=(app,))
        thread.start()
        while not getattr(server._uvicorn, "started", False):
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield server
        finally:
            server.stop()
            thread.join()
