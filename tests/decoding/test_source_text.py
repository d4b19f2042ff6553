"""Texts to translate: their tokens, and the longest that are read."""

import pytest

from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import DataError


def test_long_texts_are_refused_by_characters_and_where_the_cost_is_quadratic_by_tokens(tiny_translation):
    read = load_predictor(tiny_translation.model_dir).source_text
    assert len(read("a" * 5000, False)) == 5000 and len(read("a" * 5001, True)) == 5001
    with pytest.raises(DataError, match="5001 tokens .* at most 5000"):
        read("a" * 5001, False)
    with pytest.raises(DataError, match="100001 characters .* at most 100000"):
        read("a" * 100_001, True)
