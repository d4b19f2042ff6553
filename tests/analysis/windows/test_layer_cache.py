"""Kept outputs of layers change no loss, and are used."""

from functools import partial

import numpy as np
import pytest

from espnet_diverse.analysis.samples import read_samples, read_speech
from espnet_diverse.analysis.teacher_forcing import load, target_vocabulary
from espnet_diverse.analysis.windows.encoder_heads import encoder_heads, set_windows
from espnet_diverse.analysis.windows.layer_cache import LayerCache
from espnet_diverse.analysis.windows.losses import losses
from espnet_diverse.data.kaldi import read_data_dir

TAKEN = np.array([[4, 4], [4, 4]])
TRIALS = [TAKEN, np.array([[4, 4], [1, 4]]), np.array([[1, 4], [4, 4]]), TAKEN]


@pytest.fixture
def given(conformer, dev_dir):
    model, rate = load(conformer)
    names = {"u0": {}, "u1": {}}
    speech = partial(read_speech, rate=rate)
    return model, read_samples(speech, target_vocabulary(conformer), read_data_dir(dev_dir), names)[0]


def run(model, utterances, cache, levels, taken):
    set_windows(encoder_heads(model), levels)
    if cache is not None:
        cache.levels, cache.taken = levels, taken
    return losses(model, utterances, cache)


def calls_of(modules):
    """Numbers of calls of the convolutions of modules, which the kept outputs leave out."""
    calls = [0] * len(modules)

    def count(number):
        calls[number] += 1

    for number, module in enumerate(modules):
        module.register_forward_pre_hook(lambda *_, number=number: count(number))
    return calls


def test_losses_with_kept_outputs_are_those_without(given):
    model, utterances = given
    layers = model.encoder.encoders
    expected = [run(model, utterances, None, levels, None) for levels in TRIALS]
    calls = calls_of([model.encoder.embed.conv, *(layer.norm_ff for layer in layers)])
    cache = LayerCache(model.encoder)
    with cache.installed():
        for levels, losses_of in zip(TRIALS, expected, strict=True):
            np.testing.assert_array_equal(run(model, utterances, cache, levels, TAKEN), losses_of)
    assert calls == [2, 4, 6]  # two utterances: each trial begins at the layer that differs
    np.testing.assert_array_equal(run(model, utterances, None, TRIALS[1], None), expected[1])
    assert "forward" not in vars(layers[0])


def test_a_step_that_is_taken_is_kept_from_then_on(given):
    model, utterances = given
    calls = calls_of([layer.norm_ff for layer in model.encoder.encoders])
    cache = LayerCache(model.encoder)
    with cache.installed():
        for levels in (TAKEN, TRIALS[1], TRIALS[1]):
            run(model, utterances, cache, levels, levels)
    assert calls == [2, 4]


def test_no_more_is_kept_than_allowed(given):
    model, utterances = given
    calls = calls_of([model.encoder.embed.conv])
    cache = LayerCache(model.encoder, most=100)
    with cache.installed():
        for _ in range(2):
            run(model, utterances, cache, TAKEN, TAKEN)
    assert calls == [4] and cache.bytes == 0


def test_nothing_is_kept_without_levels(given):
    model, utterances = given
    calls = calls_of([model.encoder.embed.conv])
    cache = LayerCache(model.encoder)
    with cache.installed():
        for _ in range(2):
            run(model, utterances, cache, None, None)
    assert calls == [4]
