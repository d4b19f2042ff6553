"""What a process holds: memory, open files, threads, children."""

import resource
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Held(NamedTuple):
    """What a process holds.

    Attributes:
        megabytes: Memory that is in use, in MB.
        files: Number of descriptors.
        threads: Number of threads.
    """

    megabytes: float
    files: int
    threads: int


def held(process: int | str = "self") -> Held:
    """What a process holds now, by default this one."""
    folder = Path("/proc", str(process))
    pages = int((folder / "statm").read_text().split()[1])
    files, threads = (sum(1 for _ in (folder / name).iterdir()) for name in ("fd", "task"))
    return Held(pages * resource.getpagesize() / 1e6, files, threads)


def children(process: int) -> dict[int, str]:
    """States by number of the children of a process, such as R, S, or Z for one that it has not waited for."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == process:
                found[int(path.parent.name)] = state
    return found
