"""Caches of oneDNN's primitives, which hold code and buffers for each combination of shapes that they were called with.

PyTorch keeps up to 1024 primitives of each thread, and oneDNN 1024 of the process, each of up to 50 kB. Recordings have
ever new lengths, and batches ever new sizes, so a process that serves them would grow for hours until both are full.
"""

import os

CAPACITY = 64
"""Primitives in each cache; a layer of a search needs few, because a batch keeps its size from step to step."""
VARIABLES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
"""Environment variables of PyTorch and oneDNN that set the capacity; they are read once."""


def primitive_limits() -> dict[str, str]:
    """Values of the variables that the user has not set; they have an effect before the import of PyTorch."""
    return {name: str(CAPACITY) for name in VARIABLES if name not in os.environ}
