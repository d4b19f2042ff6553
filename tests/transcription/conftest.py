"""Speech to find, and rooms of silence around it."""

import pytest

from espnet_diverse.audio.speech_synthesis import Line, Voice, synthesize


@pytest.fixture(scope="module")
def speech():
    """Something that is said, about three seconds, with a little noise."""
    line = Line("the quick brown fox jumps over the lazy dog", "en", Voice("m3", 160, 50), snr=30, seed=1)
    return next(synthesize([line], 1))
