"""Long recordings and streams leave memory, files and threads as they were; `serve/test_callers.py` has requests."""

import time

import numpy as np
import pytest
import soundfile
from references.held import held
from references.streaming import RATE, tones, write_run

from espnet_diverse.inference import Recognizer, SegmentationOptions, StreamRecognizer

OPTIONS = {"beam_size": 1}
BY_LOUDNESS = SegmentationOptions(vad="energy")


def utterance(seconds: int) -> np.ndarray:
    """Tones and, at the end, a second of silence, which ends the utterance."""
    return np.concatenate([tones(seconds - 1.0, 1), np.zeros(RATE, np.float32)])


def tell(capsys, what, seconds, began, seen):
    """Print what was held at the end of the first fifth and of each further one, and check that it stays."""
    fifths = seen[len(seen) // 5 :: len(seen) // 5]
    listed = "; ".join(f"{one.megabytes:.0f} MB, {one.files} files, {one.threads} threads" for one in fifths)
    with capsys.disabled():
        print(f"\n{what}: {seconds / (time.monotonic() - began):.1f} times real time; after each fifth: {listed}")
    assert fifths[-1].megabytes - fifths[0].megabytes < 60
    assert {(one.files, one.threads) for one in fifths} == {(fifths[0].files, fifths[0].threads)}


@pytest.mark.parametrize(
    "minutes", [pytest.param(2, id="short"), pytest.param(120, id="full", marks=pytest.mark.trust)]
)
@pytest.mark.timeout(3600)
def test_hours_in_one_file(minutes, tiny_run, tmp_path, capsys):
    path, part, count = tmp_path / "hours.flac", utterance(9), round(minutes * 60 / 9)
    with soundfile.SoundFile(path, "w", RATE, 1) as file:
        for _ in range(count):
            file.write(part)
    recognizer = Recognizer(tiny_run.model_dir, options=OPTIONS, segmentation=BY_LOUDNESS)
    seen, began = [], time.monotonic()
    transcript = recognizer.transcribe(path, on_progress=lambda done, total: seen.append(held()))
    assert transcript.duration == pytest.approx(9 * count) and len(transcript.segments) == count
    tell(capsys, f"{minutes} minutes in one file", transcript.duration, began, seen)


@pytest.mark.parametrize("minutes", [pytest.param(1, id="short"), pytest.param(30, id="full", marks=pytest.mark.trust)])
@pytest.mark.timeout(3600)
def test_half_an_hour_of_a_stream(minutes, tmp_path, capsys):
    part, count = utterance(4), 15 * minutes
    run = write_run(tmp_path / "run", block_size=40, hop_size=16, look_ahead=16)
    recognizer = StreamRecognizer(run, options=OPTIONS, segmentation=BY_LOUDNESS)
    seen, began, size = [], time.monotonic(), RATE // 10

    def blocks():
        for _ in range(count):
            seen.append(held())
            yield from (part[i : i + size] for i in range(0, len(part), size))

    final = sum(result.is_final for result in recognizer.stream(blocks()))
    assert final == count
    tell(capsys, f"{minutes} minutes of a stream", 4 * count, began, seen)
