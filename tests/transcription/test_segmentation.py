import numpy as np
import pytest

from espnet_diverse.audio.resampling import resample
from espnet_diverse.transcription.segmentation import FrameLimits, SpeechChunk, split_speech, windows
from espnet_diverse.transcription.segmentation_options import VADS, SegmentationOptions
from espnet_diverse.transcription.vad import FRAME, EnergyDetector

RATE = 16_000
STEP = FRAME / RATE


def silence(seconds):
    return np.zeros(round(seconds * RATE), np.float32)


def noise(seconds, decibels, seed=0):
    samples = np.random.default_rng(seed).standard_normal(round(seconds * RATE))
    return (10 ** (decibels / 20) * samples).astype(np.float32)


def voice(seconds, hertz=300.0):
    """A tone: speech, to what goes by loudness."""
    return (0.3 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def cut(samples, **options):
    """Chunks of speech, after a check of what holds for all of them."""
    segmentation = SegmentationOptions(**options)
    found = list(split_speech([samples], segmentation))
    end = 0.0
    for chunk in found:
        assert chunk.start >= end and chunk.samples.dtype == np.float32
        first = round(chunk.start * RATE)
        np.testing.assert_array_equal(chunk.samples, samples[first : first + len(chunk.samples)])
        assert len(chunk.samples) <= segmentation.max_seconds * RATE
        end = chunk.end
    assert end <= len(samples) / RATE
    return found


def times(found):
    return [(round(chunk.start, 3), round(chunk.end, 3)) for chunk in found]


@pytest.mark.parametrize("vad", ["auto", "silero", "energy"])
@pytest.mark.parametrize("seconds", [0.0, 0.01, 5.0, 50.0])
def test_silence_and_low_noise_give_nothing(vad, seconds):
    assert cut(silence(seconds), vad=vad) == []
    assert cut(noise(seconds, -60), vad=vad) == []
    assert cut(silence(seconds) + np.float32(0.3), vad=vad) == []
    assert list(split_speech([], SegmentationOptions(vad=vad))) == []


def test_loud_noise_is_speech_to_the_energy_detector_alone():
    assert cut(noise(30, -20), vad="energy") != [] and cut(noise(30, -20), vad="auto") == []


def test_speech_above_steady_noise_is_found():
    samples = noise(10, -50)
    samples[4 * RATE : 5 * RATE] += voice(1)
    ((start, end),) = times(cut(samples, vad="energy"))
    assert start == pytest.approx(3.8, abs=2 * STEP) and end == pytest.approx(5.2, abs=2 * STEP)


@pytest.mark.parametrize("vad", ["silero", "energy"])
def test_speech_is_found_between_pauses(speech, vad):
    samples = np.concatenate([silence(2), speech, silence(3), speech / 2, silence(2)])
    second = 5 + len(speech) / RATE
    found = times(cut(samples, vad=vad))
    assert len(found) == 2
    for (start, end), begin in zip(found, (2.0, second), strict=True):
        assert start == pytest.approx(begin, abs=0.25) and end == pytest.approx(begin + len(speech) / RATE, abs=0.3)


def test_blocks_make_no_difference(speech):
    samples = np.concatenate([silence(1), speech, silence(1), speech, noise(8, -60), speech, speech, speech])
    for vad in VADS:
        whole = cut(samples, vad=vad, max_seconds=8)
        for size in (500, FRAME, RATE):
            blocks = [samples[at : at + size] for at in range(0, len(samples), size)]
            parts = list(split_speech(blocks, SegmentationOptions(vad=vad, max_seconds=8)))
            assert times(parts) == times(whole) != []
            for one, other in zip(parts, whole, strict=True):
                np.testing.assert_array_equal(one.samples, other.samples)


def test_auto_leaves_short_recordings_whole(speech):
    samples = np.concatenate([silence(3), speech, silence(4)])
    (whole,) = cut(samples)
    assert whole.start == 0 and len(whole.samples) == len(samples)
    assert len(cut(np.concatenate([samples, samples]))) == 1
    longer = np.concatenate([samples, samples, samples])
    assert times(cut(longer)) == times(cut(longer, vad="silero")) and len(cut(longer)) == 3


def test_auto_uses_energy_where_silero_is_missing(monkeypatch, speech):
    monkeypatch.setattr("espnet_diverse.transcription.vad.silero_is_installed", lambda: False)
    assert isinstance(SegmentationOptions().detector(), EnergyDetector)
    samples = np.concatenate([silence(9), speech, silence(9), speech])
    assert times(cut(samples)) == times(cut(samples, vad="energy")) != []


@pytest.mark.parametrize("vad", ["none", "energy"])
def test_speech_without_pauses_is_split_at_its_quietest_place(vad):
    samples = voice(30)
    for begin in (9.0, 17.5):  # too short for pauses
        samples[round(begin * RATE) : round((begin + 0.2) * RATE)] *= 0.01
    found = times(cut(samples, vad=vad, max_seconds=12))
    ends = [end for _, end in found]
    assert ends[:2] == [pytest.approx(9.1, abs=0.1), pytest.approx(17.6, abs=0.1)]
    assert [start for start, _ in found[1:]] == ends[:-1] and ends[-1] == 30.0


def test_without_vad_nothing_is_left_out():
    for seconds in (0.001, 0.5, 20.0, 20.1, 47.3):
        found = cut(silence(seconds), vad="none")
        assert sum(len(chunk.samples) for chunk in found) == round(seconds * RATE)
        assert len(found) == 1 or seconds > 20


def test_clicks_are_no_speech_and_short_words_are():
    samples = silence(4)
    samples[RATE : RATE + 320] = voice(0.02)
    assert cut(samples, vad="energy") == []
    samples[RATE : RATE + 3200] = voice(0.2)
    assert times(cut(samples, vad="energy")) == [(pytest.approx(0.8, abs=0.05), pytest.approx(1.4, abs=0.05))]


def test_the_rest_of_speech_that_was_split_is_kept_however_short():
    found = cut(np.concatenate([voice(4.05), silence(3)]), vad="energy", max_seconds=4)
    assert times(found)[-1][1] >= 4.05 and found[0].end == found[1].start
    late = np.concatenate([voice(3.8), 0.01 * voice(0.1), voice(0.2), silence(3)])  # quietest near the end
    first, rest = cut(late, vad="energy", max_seconds=4, min_speech_seconds=0.5)
    assert first.end == rest.start == pytest.approx(3.85, abs=0.05) and rest.end >= 4.1


def test_a_pause_within_the_last_half_ends_a_long_chunk(speech):
    samples = np.concatenate([voice(6), silence(0.4), voice(6)])
    found = times(cut(samples, vad="energy", max_seconds=8))
    assert found[0][1] == found[1][0] == pytest.approx(6.2, abs=0.2)


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 44_100])
def test_times_match_sixteen_kilohertz(speech, rate):
    samples = np.concatenate([silence(2), speech, silence(3), speech / 2, silence(2)])
    other = resample(samples, RATE, target_rate=rate)
    for vad in ("silero", "energy"):
        options = SegmentationOptions(vad=vad)
        expected = list(split_speech([samples], options))
        found = list(split_speech(np.array_split(other, 9), options, rate))
        assert len(found) == len(expected) == 2
        for chunk, same in zip(found, expected, strict=True):
            assert (chunk.start, chunk.end) == pytest.approx((same.start, same.end), abs=0.2)
            first = round(chunk.start * rate)
            np.testing.assert_array_equal(chunk.samples, other[first : first + len(chunk.samples)])


@pytest.mark.parametrize("rate", [8000, 11_025, 44_100])
def test_at_any_rate_nothing_is_left_out_without_vad(rate):
    samples = np.random.default_rng(0).standard_normal(round(20.1 * rate)).astype(np.float32)
    found = list(split_speech(np.array_split(samples, 9), SegmentationOptions(vad="none", max_seconds=6), rate))
    assert [chunk.end for chunk in found[:-1]] == [chunk.start for chunk in found[1:]]
    np.testing.assert_array_equal(np.concatenate([chunk.samples for chunk in found]), samples)
    assert len(found) > 3 and max(len(chunk.samples) for chunk in found) <= 6 * rate


@pytest.mark.parametrize("vad", VADS)
def test_segments_of_any_length_may_be_allowed(speech, vad):
    samples = np.concatenate([silence(3), speech, silence(4), speech, silence(4)])
    expected = cut(samples, vad=vad, max_seconds=len(samples))
    assert times(cut(samples, vad=vad, max_seconds=float("inf"))) == times(expected) != []


@pytest.mark.parametrize(("rate", "times", "chunks"), [(8000, 3, 3), (44_100, 1, 1)])
def test_auto_measures_length_at_the_rate(speech, rate, times, chunks):
    samples = np.concatenate([silence(3), speech, silence(4)] * times)  # in samples shorter, or longer, than 20 s
    found = list(split_speech([resample(samples, RATE, target_rate=rate)], rate=rate))
    assert len(found) == chunks and (chunks > 1 or abs(found[0].end - len(samples) / RATE) < 1e-3)


def test_chunks_are_handed_out_as_soon_as_they_end():
    read = []

    def blocks():
        for second in range(60):
            read.append(second)
            yield silence(1.0) if second % 5 == 4 else voice(1.0)

    for count, chunk in enumerate(split_speech(blocks(), SegmentationOptions(vad="energy"))):
        assert read[-1] == 5 * count + 4 and chunk.end < read[-1] + 1
    assert count == 11


def test_a_chunk_knows_its_end():
    assert SpeechChunk(1.5, silence(0.25)).end == 1.75
    assert SpeechChunk(1.5, silence(0.25), 8000).end == 2.0


@pytest.mark.parametrize(("threshold", "end"), [(0.5, 0.35), (0.1, 0.01)])
def test_within_speech_the_threshold_matches_silero(threshold, end):
    """Its own segmentation takes max(threshold - 0.15, 0.01)."""
    limits = FrameLimits.of(SegmentationOptions(threshold=threshold))
    assert (limits.start_threshold, limits.end_threshold) == (threshold, pytest.approx(end))


def test_windows_begin_where_the_last_one_says():
    samples, passed = noise(7, -20), iter([1.5, np.inf, 0.25, 2.0, 2.0])
    sizes = np.split(samples, [100, 40_000, 40_001, 90_000])
    found = list(windows(sizes, RATE, 2.0, lambda: next(passed)))
    assert times(found) == [(0.0, 2.0), (1.5, 3.5), (3.5, 5.5), (3.75, 5.75), (5.75, 7.0)]
    for chunk in found:
        first = round(chunk.start * RATE)
        np.testing.assert_array_equal(chunk.samples, samples[first : first + len(chunk.samples)])
    assert list(windows([], RATE, 2.0, lambda: 1.0)) == []
