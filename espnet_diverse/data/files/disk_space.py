"""File names for errors of a full disk, in which the system names no file."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, a quota and a limit of the process."""


@contextmanager
def named_if_full(path: Path) -> Iterator[None]:
    """Add the name of the file that a block writes to an error of `NO_ROOM`."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in NO_ROOM:
            error.filename = str(path)
        raise
