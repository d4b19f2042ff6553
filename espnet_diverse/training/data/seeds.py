"""Seeds of the random number generators: one for each update and one for each row of data.

They depend only on the seed of the training and the place in it. A run that continues at any place therefore draws the
same numbers as one without a break, without saved states, and for any number of data workers.
"""

import random
import struct
from hashlib import blake2b

import numpy as np
import torch

_UPDATE, _ROW, _NOISE = range(3)


def seed_update(seed: int, epoch: int, batch: int, rank: int) -> None:
    """Seed the generators for the batches of an update, such as its dropout.

    Args:
        seed: Seed of the training.
        epoch: Number of the epoch.
        batch: Number of batches of the epoch before the update.
        rank: Rank of this process; each draws its own.
    """
    _set(seed, _UPDATE, epoch, batch, rank)


def seed_row(seed: int, epoch: int, batch: int, position: int) -> None:
    """Seed the generators for reading a row, such as its augmentation.

    Args:
        seed: Seed of the training.
        epoch: Number of the epoch.
        batch: Number of batches of the epoch before the row's.
        position: Position of the row in its batch, counted over all processes.
    """
    _set(seed, _ROW, epoch, batch, position)


def seed_noise(seed: int, iteration: int) -> None:
    """Seed the generators for the noise that is added to gradients, which all processes draw alike.

    Args:
        seed: Seed of the training.
        iteration: Number of batches until the update.
    """
    _set(seed, _NOISE, iteration)


def _set(*entropy: int) -> None:
    digest = blake2b(struct.pack(f"<{len(entropy)}q", *entropy), digest_size=12).digest()
    python, numpy, pytorch = struct.unpack("<3I", digest)
    random.seed(python)
    np.random.seed(numpy)
    torch.default_generator.manual_seed(pytorch)  # `torch.manual_seed` formats a traceback for unused GPUs
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(pytorch)
