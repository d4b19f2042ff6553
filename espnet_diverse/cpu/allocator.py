"""Freed memory of glibc's allocator: kept in the process, or returned to the operating system."""

import os

from espnet_diverse.portable import c_function

IN_TRAINING = 2**26  # bytes; larger tensors are rare, and the peak of a training grows by 1 %
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of malloc.h
_OF_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory(largest: int = 2**25) -> bool:
    """Make the C library keep memory that is freed, up to 4 times `largest` bytes at the end of its heap.

    It would return large tensors to the operating system when they are freed, and get them back in the next step with
    a page fault for every 4 kB, which took up to a quarter of a training step on a virtual machine. It affects the
    whole process, so it is meant for programs: `espnet-diverse` calls it, `import espnet_diverse` does not.

    Args:
        largest: Tensors of more bytes are returned when they are freed, so that the peak of the memory grows little.

    Returns:
        Whether it was done: not with another C library, nor where an environment variable of glibc sets it.
    """
    mallopt = c_function("mallopt")
    if mallopt is None or any(name in os.environ for name in _OF_USER):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, largest) and mallopt(_M_TRIM_THRESHOLD, 4 * largest))


def share_freed_memory() -> bool:
    """Make the threads that start from now on share one heap, so that each can take what another has freed.

    glibc gives each thread a heap of its own, up to 8 for each core; a server whose threads take turns would grow until
    all of them have held as much as the largest request needs.

    Returns:
        Whether it was done, see `keep_freed_memory`.
    """
    mallopt = c_function("mallopt")
    if mallopt is None or any(name in os.environ for name in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")):
        return False
    return bool(mallopt(_M_ARENA_MAX, 1))


def return_freed_memory() -> None:
    """Make the C library return what is free between the blocks of its heap, such as files that were read."""
    if (malloc_trim := c_function("malloc_trim")) is not None:
        malloc_trim(0)
