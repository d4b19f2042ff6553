import numpy as np
import pytest

from espnet_diverse.transcription import endpointing
from espnet_diverse.transcription.endpointing import utterances
from espnet_diverse.transcription.segmentation import FRAME_SECONDS, split_speech
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.vad import FRAME

RATE, STEP = 16_000, FRAME_SECONDS
ENERGY = SegmentationOptions("energy")


def silence(seconds):
    return np.zeros(round(seconds * RATE), np.float32)


def voice(seconds):
    """A tone: speech, to what goes by loudness."""
    return (0.3 * np.sin(2 * np.pi * 300 * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def found(samples, options=ENERGY, rate=RATE, block=2560):
    """Utterances as lists of parts."""
    blocks = [samples[i : i + block] for i in range(0, len(samples), block)]
    whole = [[]]
    for part in utterances(blocks, options, rate):
        whole[-1].append(part)
        if part.last:
            whole.append([])
    assert whole.pop() == []  # the last one has ended
    return whole


def joined(parts):
    return np.concatenate([part.samples for part in parts])


CLICK = (silence(0.9), voice(0.03), silence(2))
SPOKEN = np.concatenate([silence(1.3), voice(2.0), silence(0.3), voice(0.7), *CLICK, voice(1.0), silence(0.1)])


@pytest.mark.parametrize("rate", [16_000, 8000])
@pytest.mark.parametrize("block", [200, 2560, 100_000])
def test_utterances_are_the_segments_of_a_recording(rate, block):
    segments = list(split_speech([SPOKEN], ENERGY, rate))
    streamed = found(SPOKEN, rate=rate, block=block)
    assert len(segments) == len(streamed) > 1
    for segment, parts in zip(segments, streamed, strict=True):
        np.testing.assert_array_equal(joined(parts), segment.samples)
        assert segment.start <= parts[0].start <= parts[-1].end <= segment.end


def test_times_match_speech():
    first, second = found(SPOKEN)
    assert (first[0].start, first[-1].end) == pytest.approx((1.3, 4.3), abs=FRAME_SECONDS)
    assert (second[0].start, second[-1].end) == pytest.approx((7.23, 8.23), abs=FRAME_SECONDS)
    assert {part.start for part in first} == {first[0].start}


@pytest.mark.parametrize("rate", [16_000, 8000])
def test_times_do_not_exceed_the_stream(rate):
    samples = np.concatenate([voice(1.0), voice(0.017)])  # the last frame is shorter
    ((*_, last),) = found(samples, rate=rate)
    assert last.end == last.heard == len(samples) / rate


def test_parts_come_while_speech_continues():
    (parts, _) = found(SPOKEN)
    assert parts[0].heard == pytest.approx(1.3 + 0.1, abs=1.1 * FRAME_SECONDS)  # once it is no click
    given = 1.3 - 0.2  # seconds of the stream that were given, with what is kept before speech
    for part in parts[:-1]:
        given += len(part.samples) / RATE
        if not 3.3 <= part.heard <= 3.6 + FRAME_SECONDS:  # silence that is longer than what is kept after speech
            assert part.heard - given < 2 * FRAME_SECONDS
    assert parts[-1].heard == pytest.approx(4.3 + 0.5, abs=2 * FRAME_SECONDS)


def test_clicks_and_silence_give_nothing():
    assert found(silence(5)) == []
    assert found(np.concatenate(CLICK)) == []
    assert list(utterances([], ENERGY, RATE)) == []


def test_speech_without_a_pause_ends_at_the_greatest_length_without_loss():
    options = SegmentationOptions("energy", max_seconds=2.0)
    samples = voice(5.03)
    parts = found(samples, options)
    np.testing.assert_array_equal(np.concatenate([joined(each) for each in parts]), samples)
    assert [len(joined(each)) for each in parts[:-1]] == [int(2.0 / FRAME_SECONDS) * FRAME] * 2


@pytest.mark.parametrize(("gap", "count"), [(0.2, 2), (64, 1)])
def test_a_click_long_after_speech_that_was_cut_is_a_click(gap, count):
    options = SegmentationOptions("energy", max_seconds=2.0)
    parts = found(np.concatenate([voice(62 * FRAME_SECONDS), silence(gap), voice(0.03), silence(2)]), options)
    assert len(parts) == count


def test_a_shorter_pause_ends_an_utterance_that_gets_long():
    options = SegmentationOptions("energy", max_seconds=10.0)
    spoken = [voice(3), silence(0.3), voice(4.2), silence(0.3), voice(1)]
    first, second = found(np.concatenate(spoken), options)
    assert first[-1].end == pytest.approx(7.5, abs=FRAME_SECONDS)
    assert second[0].start == pytest.approx(7.8, abs=FRAME_SECONDS)


@pytest.mark.parametrize(
    ("probabilities", "counts"),
    [
        ([0.4] * 30, []),  # between the thresholds nothing begins,
        ([0.6] * 5 + [0.4] * 30 + [0.0] * 20, [35]),  # but continues
        ([0.5] * 3 + [0.0] * 20, [3]),  # thresholds and the least speech are inclusive
        ([0.5] * 2 + [0.0] * 20, []),
        ([1.0] * 40 + [0.0] * 9 + [1.0] * 8 + [0.0] * 20, [57]),  # no shorter pause before half of the greatest length
        ([1.0] * 70 + [0.0] * 9 + [1.0] * 8 + [0.0] * 20, [70, 8]),
    ],
)
def test_frames_of_speech_make_utterances(probabilities, counts, monkeypatch):
    """By hand: 100 frames are the greatest length, 10 a pause, 3 the least speech."""
    seconds = {"max_seconds": 100, "min_silence_seconds": 10, "min_speech_seconds": 3, "padding_seconds": 0}
    options = SegmentationOptions(
        "energy", threshold=0.5, **{name: (count + 0.01) * FRAME_SECONDS for name, count in seconds.items()}
    )
    frames = [(np.zeros(FRAME, np.float32), probability) for probability in probabilities]
    monkeypatch.setattr(endpointing, "frames_of_speech", lambda *_: iter(frames))
    spoken = [round((parts[-1].end - parts[0].start) / FRAME_SECONDS) for parts in found(silence(1), options)]
    assert spoken == counts


def test_without_a_detector_length_alone_ends_utterances():
    options = SegmentationOptions("none", max_seconds=3.0)
    samples = np.concatenate([silence(4), voice(3)])
    parts = found(samples, options)
    assert len(parts) == 3
    np.testing.assert_array_equal(np.concatenate([joined(each) for each in parts]), samples)


def test_the_next_block_is_not_asked_for_before_the_last_was_used():
    asked = []

    def blocks():
        for i in range(0, len(SPOKEN), 1600):
            asked.append(i + 1600)
            yield SPOKEN[i : i + 1600]

    for part in utterances(blocks(), ENERGY, RATE):
        assert asked[-1] / RATE - part.heard < 0.1 + FRAME_SECONDS


@pytest.mark.parametrize("padding", [0.5, 1.0])
def test_padding_leaves_room_for_speech(padding):
    """At its greatest, half of an utterance; the other half has what is spoken first."""
    options = SegmentationOptions("energy", max_seconds=2, min_silence_seconds=1, padding_seconds=padding)
    first, *_ = found(np.concatenate([silence(3), voice(3.0), silence(3)]), options)
    assert len(joined(first)) <= 2 * RATE
    assert first[0].start == pytest.approx(3.0, abs=0.05) and first[-1].end - first[0].start >= 0.9


def test_an_utterance_of_any_length_may_be_allowed():
    options = SegmentationOptions("energy", max_seconds=float("inf"))
    samples = np.concatenate([silence(1), voice(30.0), silence(2)])
    (parts,) = found(samples, options)
    assert parts[-1].end - parts[0].start == pytest.approx(30.0, abs=0.05)


FOUR = SegmentationOptions("energy", max_seconds=4)  # 125 frames


def test_shortly_before_the_greatest_length_one_frame_is_a_pause():
    frames = [voice(STEP)] * 122 + [silence(STEP)] + [voice(STEP)] * 60
    first, second = found(np.concatenate([*frames, silence(2)]), FOUR)
    assert len(joined(first)) == 123 * FRAME and len(joined(second)) > 60 * FRAME


def test_a_single_frame_behind_the_greatest_length_is_no_click():
    first, rest = found(np.concatenate([voice(STEP)] * 126 + [silence(2)]), FOUR)
    assert len(joined(first)) == 125 * FRAME
    assert (rest[0].start, rest[-1].end) == pytest.approx((125 * STEP, 126 * STEP))


def test_speech_right_behind_a_pause_has_its_padding_alone():
    """The pause is longer than the padding of both sides."""
    pause = 16  # frames: half a second
    samples = np.concatenate([voice(STEP)] * 20 + [silence(STEP)] * pause + [voice(STEP)] * 20)
    segments = list(split_speech([samples], ENERGY))
    assert [len(joined(parts)) for parts in found(samples)] == [len(each.samples) for each in segments]
    assert [len(each.samples) for each in segments] == [26 * FRAME, 26 * FRAME]
