"""Seeds depend on the place alone, and differ between places."""

import random
from itertools import product

import numpy as np
import pytest
import torch

from espnet_diverse.training.data.seeds import seed_noise, seed_row, seed_update


def draws(seed, *place):
    seed(*place)
    return random.random(), float(np.random.rand()), float(torch.rand(()))


PLACES = [(seed_update, *place) for place in product((0, 1), (1, 2), (0, 9), (0, 1))]
PLACES += [(seed_row, *place) for _, *place in PLACES] + [(seed_noise, 0, 1), (seed_noise, 0, 2), (seed_noise, 1, 1)]


def test_every_place_draws_its_own_numbers_again():
    first, second = [draws(*place) for place in PLACES], [draws(*place) for place in reversed(PLACES)]
    assert first == second[::-1] and all(len(set(column)) == len(PLACES) for column in zip(*first, strict=True))


def test_gpus_are_left_alone_by_training_on_a_cpu(monkeypatch):
    used = []
    monkeypatch.setattr(torch.cuda, "manual_seed", used.append)
    seed_update(0, 1, 2, 3)
    assert used == []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    seed_update(0, 1, 2, 3)
    assert len(used) == 1


@pytest.mark.parametrize("seed", [2**40, 0])
def test_any_seed_is_possible(seed):
    assert draws(seed_update, seed, 1, 0, 0) == draws(seed_update, seed, 1, 0, 0)
