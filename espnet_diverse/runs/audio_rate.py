"""The sampling rate of the audio that a model reads, which its configuration decides."""

from collections.abc import Mapping

import humanfriendly

from espnet_diverse.audio.libsndfile import RATES
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.errors import ModelError
from espnet_diverse.option_checks import must_be


def reads_features(config: Mapping) -> bool:
    """Return whether a speech model reads features instead of audio: it is configured with `input_size`, no frontend.

    Encoders that read samples, such as Whisper's, have an input of size 1.
    """
    return config.get("input_size") not in (None, 1)


def audio_rate(config: Mapping) -> int | None:
    """Sampling rate in Hz of the audio that a speech model reads; None for a model that reads features.

    Args:
        config: Configuration of a run, from the user or from config.yaml. ESPnet's frontends have the rate as `fs`: a
            number, or text such as 16k; 16 kHz if it is missing.

    Raises:
        OptionError: The rate is not one that audio can have.
    """
    if config.get("input_size") is not None:
        return None if reads_features(config) else RATE
    value = (config.get("frontend_conf") or {}).get("fs")
    if value is None:
        return RATE
    rate = _parsed(value)
    if rate is None or not RATES[0] <= rate <= RATES[1]:
        raise must_be("fs", f"{RATES[0]} to {RATES[1]} Hz as a whole number or as text such as 8k", value)
    return rate


def required_rate(config: Mapping) -> int:
    """Sampling rate in Hz of the audio that a model reads, which must not be features.

    Raises:
        ModelError: The model reads features.
        OptionError: The rate is not one that audio can have.
    """
    rate = audio_rate(config)
    if rate is None:
        features = f"features of size {config['input_size']} (input_size)"
        raise ModelError(f"the model reads {features}, not audio; give a model with a frontend")
    return rate


def _parsed(value: object) -> int | None:
    """A number of Hz as ESPnet reads it; None where it is neither a whole number nor text."""
    if isinstance(value, str):
        try:
            return humanfriendly.parse_size(value)
        except humanfriendly.InvalidSize:
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
