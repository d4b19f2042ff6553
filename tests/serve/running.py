"""A server of an application on a free port, in a thread."""

import threading
import time
from contextlib import contextmanager

from espnet_diverse.serve.application import Server


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
