"""Work of a Dask worker: load once, then map a function over the items of a piece.

A `Setup` describes what a worker loads. A process keeps the last one. The key contains the digests of the files, so
that workers that outlive a command reload a model that was retrained under the same name.
"""

import hashlib
import os
import pickle
import platform
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from espnet_diverse.data.digests import digest
from espnet_diverse.errors import ClusterError, UserError

_SAME = ("espnet_diverse", "espnet", "torch", "numpy")  # packages whose version may change results


class Setup:
    """A description of the objects that a worker loads once; it can be sent.

    Args:
        load: Function of a module, or a partial of one, that returns what the work needs, such as a search.
        files: Files that it reads. A worker checks that it sees the same content.

    Attributes:
        directory: Working directory of the client, and of the workers: paths may be relative to it.
    """

    def __init__(self, load: Callable[[], Any], files: Iterable[Path] = ()):
        self.load, self.directory = load, str(Path.cwd())
        self.digests = {str(path): digest(path) for path in files}
        self.versions = versions()
        content = pickle.dumps((load, self.directory, self.digests, self.versions))
        self.key = hashlib.sha256(content).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setup) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def check(self) -> None:
        """Check that this process sees the client's files and has the same packages; change to its directory.

        Raises:
            ClusterError: The worker has several threads, the directory does not exist here, a file has another content,
                or a package another version.
        """
        if (threads := _threads()) > 1:
            raise ClusterError(f"has {threads} threads of Dask; give each worker one, as --nthreads 1 does")
        try:
            os.chdir(self.directory)
        except OSError as error:
            reason = f"has no folder {self.directory} ({error.strerror})"
            raise ClusterError(f"{reason}; run the command in a folder that all machines share") from error
        for path, expected in self.digests.items():
            if digest(Path(path)) != expected:
                raise ClusterError(f"sees other content in {path} than the client; put it where all machines share it")
        for name, installed in versions().items():
            if installed != self.versions[name]:
                needed = self.versions[name]
                raise ClusterError(
                    f"has {name} {installed} and the client {needed}; give all machines the same environment"
                )


@dataclass(frozen=True)
class Work:
    """A piece of work, called without arguments on a worker; `function(loaded, items)` returns a result for each."""

    setup: Setup
    function: Callable[[Any, Sequence], Sequence]
    items: Sequence = field(repr=False)

    def __call__(self) -> list:
        try:
            return list(self.function(_loaded(self.setup), self.items))
        except UserError as error:  # in a class that every process can unpickle
            raise ClusterError(f"worker on {socket.gethostname()}: {error}") from error


@lru_cache(maxsize=1)
def _loaded(setup: Setup) -> Any:
    setup.check()
    loaded = setup.load()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # as in the processes of --nj: threads change the order of sums
    return loaded


def _threads() -> int:
    """Number of threads of the Dask worker that runs this; 1 outside of a worker."""
    try:
        return sys.modules["distributed"].get_worker().state.nthreads
    except (KeyError, ValueError):
        return 1


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that may change results."""
    return {"Python": platform.python_version(), **{name: version(name) for name in _SAME}}
