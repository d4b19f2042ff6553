"""Utterances like those that the tiny model of tests/conftest.py was trained on, in any length."""

import numpy as np

RATE = 16_000


def tones(seconds, seed, rate=RATE):
    """Samples (T,) of random tones of the training data, four a second."""
    random = np.random.default_rng(seed)
    time = np.arange(rate // 4) / rate
    drawn = random.choice([300, 600, 1200, 2400], round(4 * seconds))
    signal = np.concatenate([0.3 * np.sin(2 * np.pi * frequency * time) for frequency in drawn])
    return (signal + 0.01 * random.standard_normal(signal.size)).astype(np.float32)
