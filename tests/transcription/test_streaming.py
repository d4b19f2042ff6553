import gc
import mmap
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from references.streaming import RATE, tones

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.decoding.streaming.block_search import load_block_search
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.transcription.segmentation import split_speech
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.streaming import Latencies, StreamResult, transcribe_stream
from espnet_diverse.transcription.vad import FRAME

ENERGY = SegmentationOptions("energy")
PAUSE = np.zeros(12_000, np.float32)
SPOKEN = np.concatenate([PAUSE, tones(1.5, 1), PAUSE, tones(1.0, 2), PAUSE])


@pytest.fixture(scope="module")
def search(streaming_run):
    return load_block_search(streaming_run, options=SearchOptions(beam_size=2))


def in_blocks(samples, size=2560):
    return (samples[i : i + size] for i in range(0, len(samples), size))


@pytest.fixture(scope="module")
def results(search):
    return list(transcribe_stream(search, in_blocks(SPOKEN), ENERGY))


def test_final_texts_match_the_segments(search, results):
    finals = [each for each in results if each.is_final]
    segments = list(split_speech([SPOKEN], ENERGY))
    assert len(finals) == len(segments) == 2
    for final, segment in zip(finals, segments, strict=True):
        alone = search.add(segment.samples, last=True)
        assert final.text == alone.text != "" and final.score == pytest.approx(alone.score, abs=1e-3)
        assert segment.start <= final.start < final.end <= segment.end < final.heard


def test_partial_results_come_when_the_text_changes(results):
    first = results[: next(i for i, each in enumerate(results) if each.is_final) + 1]
    assert len(first) > 3 and not any(each.is_final for each in first[:-1])
    assert all(each.text for each in first) and len({each.start for each in first}) == 1
    for one, other in pairwise(first[:-1]):
        assert one.text != other.text and one.heard < other.heard
    assert first[0].heard < first[-1].end - 0.5  # while it was spoken


def test_a_text_that_is_withdrawn_has_a_final_result():
    class Withdrawn:
        rate, texts = RATE, iter(["a", *[""] * 99])

        def reset(self):
            pass

        def add(self, samples, last=False):
            return Text(next(self.texts), [], 0.0)

    found = list(transcribe_stream(Withdrawn(), in_blocks(tones(1.5, 1)), ENERGY))
    assert [(each.text, each.is_final) for each in found] == [("a", False), ("", False), ("", True)]


def test_a_final_text_has_no_space_around_it():
    class Spaced:
        rate = RATE

        def reset(self):
            pass

        def add(self, samples, last=False):
            return Text(" a b ", [], 0.0)

    *_, final = transcribe_stream(Spaced(), in_blocks(tones(1.5, 1)), ENERGY)
    assert final.is_final and final.text == "a b"


def test_silence_gives_no_result(search):
    assert list(transcribe_stream(search, [np.zeros(40_000, np.float32)], ENERGY)) == []


def test_a_closed_stream_leaves_no_state(search, results):
    stream = transcribe_stream(search, in_blocks(SPOKEN), ENERGY)
    next(stream)
    stream.close()
    again = transcribe_stream(search, in_blocks(SPOKEN), ENERGY)
    assert [each.text for each in again] == [each.text for each in results]


def test_a_stream_is_refused_once_another_has_begun(search, results):
    first, second = (transcribe_stream(search, in_blocks(SPOKEN), ENERGY) for _ in range(2))
    next(first)
    found = [next(second)]
    with pytest.raises(ConfigError, match="another stream has begun .*; make one for each stream"):
        list(first)
    assert [each.text for each in [*found, *second]] == [each.text for each in results]


@pytest.mark.parametrize("fault", [DataError("-: 3 bytes are an odd number"), KeyboardInterrupt()], ids=repr)
def test_a_fault_of_the_source_ends_the_utterance_before_it_is_raised(search, fault):
    def broken():
        yield from in_blocks(tones(1.2, 1))
        raise fault

    heard = []
    with pytest.raises(type(fault)):
        for result in transcribe_stream(search, broken(), ENERGY):
            heard.append(result)
    assert heard[-1].is_final and heard[-1].text


def result(text, is_final, heard, computing):
    return StreamResult(text, 1.0, min(heard, 3.0), is_final, -1.0, heard, computing)


def test_latencies_are_counted_from_speech():
    latencies = Latencies()
    assert str(latencies) == "0 utterances"
    for each in (("a", False, 2.0, 0.5), ("ab", False, 2.5, 0.1), ("abc", True, 3.5, 0.25), ("x", True, 3.2, 0.0)):
        latencies.add(result(*each))
    assert latencies.first == [1.5, pytest.approx(2.2)] and latencies.final == [0.75, pytest.approx(0.2)]
    assert str(latencies) == (
        "2 utterances; medians: first text 1.85 s after speech began, final text 0.48 s after it ended"
    )


def bytes_of_tensors():
    """Bytes of all tensors that the garbage collector knows."""
    gc.collect()
    return sum(each.nbytes for each in gc.get_objects() if type(each) is torch.Tensor)


@pytest.fixture
def only_new_objects():
    """The garbage collector leaves out all objects of earlier tests, millions of them, which take it seconds a call."""
    gc.freeze()
    yield
    gc.unfreeze()


def test_nothing_is_kept_of_an_utterance(search, only_new_objects):
    utterance = np.concatenate([np.zeros(24 * FRAME, np.float32), tones(48 * FRAME / RATE, 1)])
    results = transcribe_stream(search, in_blocks(np.tile(utterance, 4)), ENERGY)
    _, second, third, _ = [(each.text, bytes_of_tensors()) for each in results if each.is_final]
    assert second == third  # the samples are the same; the first and the last one lack a pause


def resident():
    """Resident memory of this process in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.trust
def test_memory_does_not_grow_over_half_an_hour(search):
    """In each minute there are eleven seconds of speech, in two utterances."""
    spoken = np.concatenate([tones(8, 1), PAUSE, tones(3, 2)])
    minute = np.concatenate([spoken, np.zeros(60 * RATE - len(spoken), np.float32)])
    memory = []

    def stream():
        for _ in range(30):
            yield from in_blocks(minute)
            memory.append(resident())

    assert sum(each.is_final for each in transcribe_stream(search, stream(), ENERGY)) == 60
    print(f"resident after 5 and 30 minutes: {memory[4] / 2**20:.1f} and {memory[29] / 2**20:.1f} MiB")
    assert memory[29] - memory[4] < 3 << 20
