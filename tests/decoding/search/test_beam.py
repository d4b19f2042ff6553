"""The step at which the hypotheses of an utterance are decided: by hand, and by ESPnet's rule."""

import numpy as np
import pytest
import torch

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam import Beam, Choice
from espnet_diverse.upstream.search import end_detect

EOS, GREATEST = 9, 4


def advance(beam, scores, tokens):
    """A step with hypotheses of one utterance, best first, all of the first parent."""
    scores = torch.tensor([scores], dtype=torch.float64)
    tokens = torch.tensor([tokens])
    beam.advance(Choice(scores, torch.zeros_like(tokens), tokens, scores))
    return len(beam.rows) == 0


def beam(**options):
    return Beam(torch.tensor([0]), torch.tensor([GREATEST]), EOS, SearchOptions(**options))


@pytest.mark.parametrize(
    ("options", "scores", "done"),
    [
        ({}, [-1.0, -2.0], True),
        ({}, [-1.0, -1.0], True),
        ({"nbest": 2}, [-1.0, -2.0], False),  # the second place is free
        ({"penalty": -1.0}, [-1.0, -2.0], True),
        ({"penalty": 0.3}, [-1.0, -2.0], True),  # three more tokens bring 0.9
        ({"penalty": 0.4}, [-1.0, -2.0], False),
        ({"length_penalty": 1.0}, [-1.0, -4.5], True),  # -4.5 / 4 tokens
        ({"length_penalty": 1.0}, [-1.0, -3.5], False),
        ({"length_penalty": 1.0, "penalty": 1.0}, [1.0, -1.2], True),  # (-1.2 + 3) / 2 tokens
        ({"length_penalty": 1.0, "penalty": 1.0}, [1.0, -0.8], False),
        ({"maxlenratio": 0.5}, [-1.0, -2.0], True),
    ],
    ids=str,
)
def test_an_utterance_is_done_when_no_better_hypothesis_is_possible(options, scores, done):
    one = beam(**options)
    assert advance(one, scores, [EOS, 1]) is done
    if done:
        assert [(hypothesis.tokens, hypothesis.score) for hypothesis in one.found[0]] == [([], scores[0])]


def test_a_better_hypothesis_keeps_the_utterance_until_it_ends():
    one = beam()
    assert not advance(one, [-1.0, -2.0], [1, EOS])
    assert advance(one, [-1.5, -1.7], [EOS, 2])
    assert [(hypothesis.tokens, hypothesis.score) for hypothesis in one.found[0]] == [([1], -1.5)]


@pytest.mark.parametrize("seed", range(12))
def test_the_search_ends_where_espnets_rule_ends_it(seed):
    """One hypothesis continues; another ends in some of the steps, near the best one or far below it."""
    random = np.random.default_rng(seed)
    one = Beam(torch.tensor([0]), torch.tensor([40]), EOS, SearchOptions(nbest=50))  # which are never found
    ended, done = [], False
    for step in range(20):
        score = random.choice([-1.0, -10.5, -11.5, -30.0, -np.inf], p=[0.1, 0.1, 0.3, 0.3, 0.2])
        done = advance(one, [-0.5, score], [1, EOS])
        if score > -np.inf:
            ended.append({"yseq": [0] * (step + 2), "score": score})  # <sos>, the tokens, <eos>
        assert done == end_detect(ended, step)
        if done:
            break
    assert len(ended) > 2


def test_steps_in_which_nothing_ends_are_no_sign_of_the_end():
    one = Beam(torch.tensor([0]), torch.tensor([40]), EOS, SearchOptions(nbest=50))
    assert not any(advance(one, scores, [1, EOS]) for scores in [[-1.5, -1.0], *[[-2.0, -torch.inf]] * 10])
