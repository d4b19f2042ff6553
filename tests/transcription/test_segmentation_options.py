"""Options of segmentation: ranges, and the detector that they choose."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.transcription.segmentation_options import SegmentationOptions


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"vad": "webrtc"}, "vad 'webrtc' is unknown; known: auto silero energy none"),
        ({"max_seconds": 0.5}, "max_seconds 0.5 is not allowed; it must lie between 1 and inf"),
        ({"min_speech_seconds": -1}, "min_speech_seconds -1 is not allowed; it must lie between 0 and 1"),
        ({"min_silence_seconds": 0}, "min_silence_seconds 0 is not allowed; it must lie between 0.1 and 10"),
        ({"padding_seconds": 0.6}, "padding_seconds 0.6 is not allowed; it must lie between 0 and 0.5"),
        ({"threshold": 2}, "threshold 2 is not allowed; it must lie between 0.05 and 1"),
    ],
)
def test_options_out_of_range_are_named(options, what):
    with pytest.raises(ConfigError, match=what):
        SegmentationOptions(**options)
