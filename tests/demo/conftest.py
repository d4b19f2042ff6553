"""The services of the two tiny models. What the models know are tones, which are no speech, and to write nothing."""

from dataclasses import replace

import pytest

from espnet_diverse.serve.limits import Limits

LIMITS = Limits(seconds=2.0, megabytes=0.5, characters=60)
LENGTHS = {"minlenratio": -3.0, "maxlenratio": -6.0}  # from three tokens to six


def _loaded(model_dir):
    from espnet_diverse.demo.task_services import load_service
    from espnet_diverse.transcription.segmentation_options import SegmentationOptions

    service = load_service(model_dir, None, LIMITS, SegmentationOptions(vad="none"))
    service.options = replace(service.options, **LENGTHS)
    return service


@pytest.fixture(scope="package")
def speech(tiny_run):
    """The service of a model of speech recognition."""
    return _loaded(tiny_run.model_dir)


@pytest.fixture(scope="package")
def translation(tiny_translation):
    """The service of a model of text translation."""
    return _loaded(tiny_translation.model_dir)


@pytest.fixture(scope="module")
def recording(tiny_run):
    """A recording of the test set."""
    return tiny_run.test_dir / "test-00.wav"


@pytest.fixture(scope="module")
def recognised(speech, recording):
    """The answer of the page to that recording."""
    return speech.run(recording.read_bytes(), {"beam_size": "4", "nbest": "3", "name": "test-00.wav"})
