"""Caches of oneDNN's primitives, which hold code and buffers for each combination of shapes they were called with.

PyTorch keeps 1024 of them for each thread, and oneDNN 1024 for the process; a linear layer of 16 inputs takes 0.4 MB
for each number of rows. Recordings have ever new lengths, and batches ever new sizes, so a process that serves them
would grow for hours, by up to 600 MB and 340 MB for each further thread.
"""

import os

CAPACITY = 64
"""Primitives in each cache; a search needs one for each size of layer, as a batch keeps its rows for many steps."""
VARIABLES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
"""Environment variables of PyTorch and oneDNN that set the capacity; they are read once."""


def primitive_limits() -> dict[str, str]:
    """Values of the variables that the user has not set; they have an effect before the import of PyTorch."""
    return {name: str(CAPACITY) for name in VARIABLES if name not in os.environ}
