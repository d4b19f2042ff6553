"""The tiny models with their search, and the samples of their test sets."""

from functools import partial

import pytest

from espnet_diverse.analysis.samples import input_of, read_samples
from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.text.vocabulary import Vocabulary


def loaded(run):
    """The predictor of a run, and the samples of its test set."""
    predictor, data = load_predictor(run.model_dir, options=SearchOptions(beam_size=1)), read_data_dir(run.test_dir)
    vocabulary, conditions = Vocabulary.load(run.model_dir), dict.fromkeys(data.text, {})
    samples, skipped = read_samples(partial(input_of, predictor), vocabulary, data, conditions)
    assert not skipped
    return predictor, samples


@pytest.fixture
def recognition(tiny_run):
    """Speech recognition by one encoder layer and one decoder layer of two heads each."""
    return loaded(tiny_run)


@pytest.fixture
def translated(tiny_translation):
    """Text translation by one encoder layer and one decoder layer of two heads each."""
    return loaded(tiny_translation)
