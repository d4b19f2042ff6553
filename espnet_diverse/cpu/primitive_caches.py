"""Caches of oneDNN's primitives, which hold code and buffers for each combination of shapes they were called with.

PyTorch keeps 1024 of them for each thread, and oneDNN 1024 for the process; a linear layer of 16 inputs takes 0.4 MB
for each number of rows. Recordings have ever new lengths, and batches ever new sizes, so a process that serves them
would grow for hours, by up to 600 MB and 340 MB for each further thread.
"""

import os

LIMITS = {"LRU_CACHE_CAPACITY": "16", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128"}
"""Environment variables of PyTorch, for each thread, and of oneDNN, which finds again what PyTorch has dropped."""


def primitive_limits() -> dict[str, str]:
    """Values of the variables that the user has not set; they have an effect before the import of PyTorch."""
    return {name: value for name, value in LIMITS.items() if name not in os.environ}
