"""Options of preparing sets that are out of range."""

import pytest

from espnet_diverse.data.writing.format_options import FormatOptions
from espnet_diverse.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"speeds": ()}, "speed factors ''"),
        ({"speeds": (1.0, 1.0)}, "speed factors '1 1': must be different numbers from 0.5 to 2"),
        ({"speeds": (90.0,)}, "speed factors '90'"),
        ({"min_seconds": 0.0}, "limits of 0 and 20 seconds: must be above 0"),
        ({"min_seconds": 5.0, "max_seconds": 2.0}, "limits of 5 and 2 seconds"),
        ({"audio_format": "mp3"}, "audio format 'mp3': must be wav, flac or ark"),
        ({"audio_format": "ark", "shards": 0}, "0 shards: must be 1 or more, and 1 unless the audio format is ark"),
        ({"audio_format": "flac", "shards": 2}, "2 shards: must be 1 or more, and 1 unless the audio format is ark"),
        ({"rate": 8}, "rate of 8 Hz: must be from 1000 to 768000, such as 8000 or 16000"),
    ],
)
def test_form_out_of_range(options, what):
    with pytest.raises(ConfigError) as caught:
        FormatOptions(**options)
    assert what in str(caught.value)
