"""What this process holds: memory, open files, threads."""

import resource
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


def held() -> Held:
    """What this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files, threads = (sum(1 for _ in Path("/proc/self", name).iterdir()) for name in ("fd", "task"))
    return Held(pages * resource.getpagesize() / 1e6, files, threads)
