"""The rate of a model, in the forms in which ESPnet's configurations have it."""

import pytest
import torch
from espnet2.asr.frontend.default import DefaultFrontend

from espnet_diverse.errors import ModelError
from espnet_diverse.option_checks import OptionError
from espnet_diverse.runs.audio_rate import audio_rate, reads_features, required_rate


@pytest.mark.parametrize("given", [16000, "16k", "16000", 8000, "8k", "8K", "44.1k", "22050"])
def test_the_rate_matches_espnets_frontend(given):
    rate = audio_rate({"frontend": "default", "frontend_conf": {"fs": given}})
    assert rate == required_rate({"frontend_conf": {"fs": given}}) and isinstance(rate, int)
    torch.testing.assert_close(DefaultFrontend(fs=given).logmel.melmat, DefaultFrontend(fs=rate).logmel.melmat)
    assert rate == float(str(given).lower().replace("k", "e3"))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"frontend_conf": None},
        {"frontend": "s3prl", "frontend_conf": {"frontend_conf": {"upstream": "wav2vec2"}}},
        {"frontend": "sliding_window", "frontend_conf": {"fs": None}},
        {"frontend": None, "frontend_conf": {}, "input_size": 1, "encoder": "whisper"},
        {"frontend_conf": {"fs": "8k"}, "input_size": 1, "encoder": "wav2vec2"},  # for which ESPnet builds no frontend
    ],
)
def test_without_a_rate_it_is_sixteen_kilohertz(config):
    assert audio_rate(config) == required_rate(config) == 16_000


def test_a_model_of_features_has_none():
    config = {"frontend": None, "frontend_conf": {}, "input_size": 83}
    assert audio_rate(config) is None
    said = r"^the model reads features of size 83 \(input_size\), not audio; give a model with a frontend$"
    with pytest.raises(ModelError, match=said):
        required_rate(config)


@pytest.mark.parametrize("given", ["fast", "", "-8k", 0, -8000, 8.0e3, 999, "1M", True, [8000]], ids=repr)
def test_an_invalid_rate_is_refused(given):
    with pytest.raises(OptionError) as caught:
        audio_rate({"frontend_conf": {"fs": given}})
    allowed = "1000 to 768000 Hz as a whole number or as text such as 8k"
    assert str(caught.value) == f"fs must be {allowed}, but is {given!r}" and caught.value.name == "fs"


@pytest.mark.parametrize(("config", "features"), [({}, False), ({"input_size": 1}, False), ({"input_size": 80}, True)])
def test_which_models_read_features(config, features):
    assert reads_features(config) == features
