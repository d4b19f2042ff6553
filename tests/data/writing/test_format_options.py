"""Options of preparing sets that are out of range."""

import pytest

from espnet_diverse.data.writing.format_options import FormatOptions
from espnet_diverse.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"speeds": ()}, "speed_perturb must be a list of at least 1, but is ()"),
        ({"speeds": (1.0, 1.0)}, "speed_perturb must be different numbers, such as 0.9 1.0 1.1, but is (1.0, 1.0)"),
        ({"speeds": (90.0,)}, "speed_perturb must be at least 0.5 and at most 2, but is 90.0"),
        ({"min_seconds": 0.0}, "min_seconds must be above 0, but is 0.0"),
        ({"min_seconds": 5.0, "max_seconds": 2.0}, "min_seconds must be below max_seconds 2, but is 5.0"),
        ({"audio_format": "mp3"}, "audio_format must be one of wav flac ark, but is 'mp3'"),
        ({"audio_format": "ark", "shards": 0}, "shards must be at least 1, but is 0"),
        ({"audio_format": "flac", "shards": 2}, "shards 2 needs audio_format ark"),
        ({"rate": 8}, "rate must be at least 1000 and at most 768000, but is 8"),
    ],
)
def test_form_out_of_range(options, what):
    with pytest.raises(ConfigError) as caught:
        FormatOptions(**options)
    assert what in str(caught.value)
