"""Golden arrays of tests/golden/methods, see its README.md."""

from pathlib import Path

import numpy as np
import torch


def golden(name):
    """Arrays of numbers of a file, as tensors by name."""
    arrays = np.load(Path(__file__).resolve().parents[1] / "golden" / "methods" / f"{name}.npz")
    return {key: torch.tensor(array) for key, array in arrays.items() if array.dtype.kind in "bif"}
