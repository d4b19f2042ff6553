"""An hour is transcribed in about the memory of a minute, with times that only increase."""

import json
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from espnet_diverse.audio.speech_synthesis import Line, Voice, synthesize

RATE = 16_000
# The peak memory of a process is that of its own, so each recording has one.
MEASURED = """
import resource, sys
from espnet_diverse.bin.main import main
code = main(["transcribe", *sys.argv[1:]])
print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def write_speech(path, minutes):
    """Sentences with pauses of a quarter of a second to three seconds between them."""
    texts = ["the quick brown fox jumps over the lazy dog", "how are you today", "one two three four five six seven"]
    spoken = list(synthesize([Line(text, "en", Voice("m3", 160, 50), snr=30, seed=1) for text in texts], 1))
    random, written = np.random.default_rng(0), 0
    with soundfile.SoundFile(path, "w", RATE, 1) as file:
        while written < minutes * 60 * RATE:
            for samples in spoken[random.integers(len(spoken))], np.zeros(round(random.uniform(0.25, 3.0) * RATE)):
                file.write(samples)
                written += len(samples)


def peak(model, path, vad):
    """Peak memory in MB of a process that transcribes `path`."""
    arguments = [model, path, "--output_dir", path.parent, "--output_format", "json", "--beam_size", "1", "--vad", vad]
    command = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, kilobytes = map(int, done.stdout.split()[-2:])
    assert code == 0, done.stderr
    return kilobytes / 1024


@pytest.mark.trust
@pytest.mark.parametrize(("suffix", "vad"), [("wav", "auto"), ("flac", "energy"), ("mp3", "none")])
def test_an_hour_takes_the_memory_of_a_minute(tiny_run, tmp_path, suffix, vad):
    peaks = {}
    for minutes in (1, 60):
        path = tmp_path / f"{minutes}.{suffix}"
        write_speech(path, minutes)
        peaks[minutes] = peak(tiny_run.model_dir, path, vad)
        content = json.loads(path.with_suffix(".json").read_text())
        end = 0.0
        for segment in content["segments"]:
            assert end <= segment["start"] < segment["end"] <= content["duration"]
            assert segment["end"] - segment["start"] <= 20.0
            end = segment["end"]
        assert end > content["duration"] - 20 and content["duration"] > 59 * minutes
    print(f"{suffix}, vad {vad}: {peaks[1]:.0f} MB for a minute, {peaks[60]:.0f} MB for an hour")
    assert peaks[60] <= 1.5 * peaks[1]
