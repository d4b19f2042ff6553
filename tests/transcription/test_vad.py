"""Voice activity detectors, frame by frame."""

import numpy as np
import torch

from espnet_diverse.transcription.vad import FRAME, SileroDetector

RATE = 16_000


def silence(seconds):
    return np.zeros(round(seconds * RATE), np.float32)


def noise(seconds, decibels, seed=0):
    samples = np.random.default_rng(seed).standard_normal(round(seconds * RATE))
    return (10 ** (decibels / 20) * samples).astype(np.float32)


def test_recordings_share_the_network_and_nothing_else(speech):
    frames = speech[: len(speech) // FRAME * FRAME].reshape(-1, FRAME)
    alone, other = SileroDetector(), SileroDetector()
    expected = alone(frames)
    first, second = SileroDetector(), SileroDetector()
    halves = []
    for half in np.array_split(frames, 2):
        halves.append(first(half))
        second(half[::-1])
    np.testing.assert_allclose(np.concatenate(halves), expected, atol=1e-6)
    np.testing.assert_allclose(other(frames), expected, atol=1e-6)


def test_the_network_equals_its_authors_own_call(speech):
    threads = torch.get_num_threads()
    import silero_vad

    torch.set_num_threads(threads)  # to which the import sets 1
    expected = silero_vad.load_silero_vad(sequence=True).audio_forward(speech)
    frames = np.pad(speech, (0, -len(speech) % FRAME)).reshape(-1, FRAME)
    detect = SileroDetector()
    found = np.concatenate([detect(part) for part in np.array_split(frames, 5)])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert expected.max() > 0.9
