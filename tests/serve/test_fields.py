"""Fields of a request, as clients write them."""

import pytest

from espnet_diverse.option_checks import OptionError
from espnet_diverse.serve.fields import Asked


def test_a_repeated_field_is_refused_unless_it_is_a_list():
    words = [("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")]
    asked = Asked.of([*words, ("response_format", "srt")], 100)
    assert asked.timestamp_granularities == ("word", "segment")
    with pytest.raises(OptionError, match="language is given twice; give it once"):
        Asked.of([("language", "de"), ("language", "es")], 100)


def test_log_probabilities_are_for_json():
    assert Asked.of([("include[]", "logprobs"), ("stream", "true")], 100).include == ("logprobs",)
    with pytest.raises(OptionError) as caught:
        Asked.of([("include[]", "logprobs"), ("response_format", "srt")], 100)
    assert caught.value.name == "response_format"
