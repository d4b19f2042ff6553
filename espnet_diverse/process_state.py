"""State of the process that a stage or an option changes for a while: environment, logging, random generators.

The environment and the working directory belong to all threads. A block here sets and restores single variables, and no
block changes the directory.
"""

import contextlib
import logging
import os
import random
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def environment(**variables: str | None) -> Iterator[None]:
    """Set environment variables, for this process and the programs that it starts, and restore them and no others.

    Args:
        **variables: Values by name; None leaves a variable as it is.
    """
    changes = {name: value for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Restore handlers of log records, filters of warnings, random generators and PyTorch's number of threads."""
    with restored_handlers(), warnings.catch_warnings(), _kept_random_state():
        yield


@contextlib.contextmanager
def restored_handlers() -> Iterator[None]:
    """Restore level and handlers of the root logger, to which ESPnet's `logging.info` adds one where there is none."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        for handler in set(root.handlers) - set(handlers):
            handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _kept_random_state() -> Iterator[None]:
    """Restore random generators and PyTorch's number of threads, for the libraries that are loaded."""
    state = random.getstate()
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    numpy_state = numpy.random.get_state() if numpy else None
    torch_state, threads = (torch.get_rng_state(), torch.get_num_threads()) if torch else (None, None)
    try:
        yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(numpy_state)
        if torch:
            torch.set_rng_state(torch_state)
            torch.set_num_threads(threads)
