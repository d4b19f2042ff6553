"""Differences between operating systems, Linux, where everything is tested, and macOS; the folder of the cache."""

import ctypes
import errno
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROC = Path("/proc")
"""Folder in which Linux describes processes and the CPU; macOS has none."""


@contextmanager
def unnamed_file() -> Iterator[Path]:
    """Yield a path of a temporary file that is in no folder, so that nothing is left of it, not even after a kill.

    Programs that this one starts can open the path too. On macOS the file has a name until the block ends: the paths of
    /dev/fd share one position in the file, and no other program can open them.
    """
    if PROC.is_dir():
        with tempfile.TemporaryFile() as file:
            yield PROC / str(os.getpid()) / "fd" / str(file.fileno())
    else:
        with tempfile.NamedTemporaryFile() as file:
            yield Path(file.name)


def can_fork() -> bool:
    """Return whether a forked process may continue to compute: macOS ends it if its libraries had started threads."""
    return sys.platform != "darwin"


def c_function(name: str) -> Callable[..., int] | None:
    """A function of the C library, or None if the library has no function of that name."""
    return getattr(ctypes.CDLL(None), name, None)


CACHE = "ESPNET_DIVERSE_CACHE"
"""Environment variable: the folder of the cache."""


def cache_folder() -> Path:
    """Folder of the cache, which may not exist: $ESPNET_DIVERSE_CACHE, by default ~/.cache/espnet_diverse.

    Raises:
        FileNotFoundError: None of these is known: a user without an entry in passwd, as in containers, has no home.
    """
    if folder := os.environ.get(CACHE):
        return Path(folder)
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder, "espnet_diverse")
    try:
        return Path.home() / ".cache" / "espnet_diverse"
    except RuntimeError as error:
        why = f"the home folder is not known; set ${CACHE} to a folder for the cache"
        raise FileNotFoundError(errno.ENOENT, why) from error
