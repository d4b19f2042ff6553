import io
import tempfile

import numpy as np
import pytest
import soundfile
from references.tones import RATE, tones
from serve.test_transcriptions import wav

from espnet_diverse.errors import DataError
from espnet_diverse.serve.samples import samples_of


def test_samples_come_at_the_rate_of_the_model():
    body = wav(1.0, 3).getvalue()
    samples = samples_of(body, "a.wav", 2.0, RATE)
    assert samples.dtype == np.float32 and samples == pytest.approx(tones(1.0, 3), abs=1e-4)
    assert len(samples_of(body, "a.wav", 2.0, 8000)) == 8000


def test_recordings_that_are_refused_are_named_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(DataError, match=r"^a.wav lasts 1.0 seconds; the limit is 0.5 seconds; cut it, or start the"):
        samples_of(wav(1.0).getvalue(), "a.wav", 0.5, RATE)
    with pytest.raises(DataError, match=r"^/etc/passwd: "):
        samples_of(b"no audio", "/etc/passwd", 0.5, RATE)
    assert list(tmp_path.iterdir()) == []


def test_a_recording_of_no_sample_at_the_rate_of_the_model_is_refused():
    body = io.BytesIO()
    soundfile.write(body, np.full(1, 0.1), 48_000, format="WAV")
    with pytest.raises(DataError, match=r"^a.wav: has 0 samples at 16000 Hz; give a recording with at least 1$"):
        samples_of(body.getvalue(), "a.wav", 2.0, RATE)
