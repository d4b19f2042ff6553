"""Options of segmentation: ranges, and the detector that they choose."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.vad import EnergyDetector, NoDetector, SileroDetector


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"vad": "webrtc"}, "vad must be one of auto silero energy none whisper, but is 'webrtc'"),
        ({"max_seconds": 0.5}, "max_seconds must be at least 1, but is 0.5"),
        ({"min_speech_seconds": -1}, "min_speech_seconds must be at least 0 and at most 1, but is -1"),
        ({"min_silence_seconds": 0}, "min_silence_seconds must be at least 0.1 and at most 10, but is 0"),
        ({"padding_seconds": 0.6}, "padding_seconds must be at most 0.5, but is 0.6"),
        (
            {"padding_seconds": 2, "min_silence_seconds": 3, "max_seconds": 3},  # no room for speech between the two
            "padding_seconds must be at most 1.5, but is 2",
        ),
        ({"vad": "none", "whole": True}, r"vad none cannot be combined with whole \(--no_segmentation\), for"),
        ({"threshold": 2}, "threshold must be at least 0.05 and at most 1, but is 2"),
    ],
)
def test_options_out_of_range_are_named(options, what):
    with pytest.raises(ConfigError, match=what):
        SegmentationOptions(**options)


def test_silero_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("espnet_diverse.transcription.vad.silero_is_installed", lambda: False)
    message = r"vad silero needs silero-vad and onnxruntime, .*install espnet_diverse\[vad\], or choose vad energy"
    with pytest.raises(ConfigError, match=message):
        SegmentationOptions(vad="silero").detector()


@pytest.mark.parametrize(
    ("vad", "installed", "detector"),
    [
        ("auto", True, SileroDetector),
        ("auto", False, EnergyDetector),
        ("silero", True, SileroDetector),
        ("energy", True, EnergyDetector),
        ("none", True, NoDetector),
    ],
)
def test_the_detector_that_is_chosen(monkeypatch, vad, installed, detector):
    monkeypatch.setattr("espnet_diverse.transcription.vad.silero_is_installed", lambda: installed)
    options = SegmentationOptions(vad=vad)
    assert isinstance(options.detector(), detector)
    assert options.detector() is not options.detector()


def test_bounds_are_allowed():
    SegmentationOptions(max_seconds=20, min_speech_seconds=1, min_silence_seconds=10, padding_seconds=10, threshold=1)
    SegmentationOptions(max_seconds=1, padding_seconds=0.5)
    SegmentationOptions(max_seconds=float("inf"))
    SegmentationOptions(min_speech_seconds=0, min_silence_seconds=0.1, padding_seconds=0.1, threshold=0.05)


@pytest.mark.parametrize("name", ["max_seconds", "padding_seconds", "threshold"])
def test_nan_is_refused(name):
    with pytest.raises(ConfigError, match=f"^{name} must be a number, but is nan"):
        SegmentationOptions(**{name: float("nan")})
