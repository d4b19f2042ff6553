"""Recordings in which somebody speaks, which tones and noise are not for a voice activity detector."""

from pathlib import Path

import soundfile

from espnet_diverse.audio.speech_synthesis import Line, Voice, synthesize


def write_speech(path: Path, text: str) -> Path:
    """Write English text, spoken by a synthetic voice, as a recording of 16 kHz; return its path."""
    (samples,) = synthesize([Line(text, "en", Voice("m3", 160, 50), 40.0, 0)], 1)
    soundfile.write(path, samples, 16_000)
    return path
