"""Voice activity detectors, frame by frame."""

import numpy as np
import pytest
import torch

from espnet_diverse.transcription.vad import FRAME, EnergyDetector, NoDetector, SileroDetector, decibels

RATE = 16_000


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


def frames_of(*decibels):
    """Noise of one frame for each level, in dB of full scale."""
    return np.stack([noise(FRAME / RATE, level, seed) for seed, level in enumerate(decibels)])


def test_loudness_is_without_the_mean_and_bounded():
    tone = np.sin(2 * np.pi * 10 * np.arange(FRAME) / FRAME).astype(np.float32)
    levels = decibels(np.stack([tone, 0.1 * tone + 0.5, np.zeros(FRAME, np.float32), np.ones(FRAME, np.float32)]))
    np.testing.assert_allclose(levels, [-3.01, -23.01, -100, -100], atol=0.01)


def test_loud_frames_are_speech_to_the_energy_detector_and_quiet_ones_never():
    detect = EnergyDetector()
    assert detect(frames_of(-60, -30, -60, -20)).tolist() == [0, 1, 0, 1]
    assert EnergyDetector()(frames_of(-90, -58)).tolist() == [0, 0]  # 32 dB above the floor, and below QUIETEST


def test_speech_stands_out_from_the_noise_before_it():
    assert EnergyDetector()(frames_of(-50, -50, -44, -36, -50)).tolist() == [0, 0, 0, 1, 0]


def test_the_noise_floor_rises_by_three_decibels_a_second():
    """Noise that becomes 12 dB louder is speech for a second and noise afterwards."""
    found = EnergyDetector()(frames_of(-52, *[-40] * 100))
    assert found[1] == 1 and found[-1] == 0
    assert (found[1:].argmin() + 1) * FRAME / RATE == pytest.approx(2 / 3, abs=0.2)


@pytest.mark.parametrize("detector", [EnergyDetector, NoDetector, SileroDetector])
def test_the_number_of_frames_of_a_call_changes_nothing(detector):
    frames = frames_of(*np.random.default_rng(0).uniform(-60, -20, 40))
    whole, one = detector()(frames), detector()
    assert whole.shape == (40,) and whole.dtype == np.float32
    np.testing.assert_allclose(np.concatenate([one(frame[None]) for frame in frames]), whole, atol=1e-6)


def test_no_detection_takes_all_for_speech():
    assert NoDetector()(frames_of(-100, -20)).tolist() == [1, 1]
