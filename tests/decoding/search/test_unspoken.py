"""Endless repetitions are cut after the first, and texts without speech are empty."""

import pytest
import torch
from espnet2.asr.ctc import CTC

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam import Hypothesis
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.search.hotwords import HotwordScorer
from espnet_diverse.decoding.search.unspoken import heard, without_loops
from espnet_diverse.nets.whisper.decoder import DiverseWhisperDecoder


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [
        ([1, 2, 3, 4, 3, 4, 3, 4], [1, 2, 3, 4]),
        ([1, 2, 3, 4, 3, 4, 3, 4, 3], [1, 2, 3, 4]),
        ([5, 5, 5, 5], [5]),
        ([1, 3, 4, 3, 4, 3, 4, 4, 3], [1, 3, 4]),
        ([3, 4, 3, 4, 3, 4, 1, 2, 5, 6, 7, 8, 9], [3, 4, 3, 4, 3, 4, 1, 2, 5, 6, 7, 8, 9]),
        ([1, 2, 3, 1, 2, 3], [1, 2, 3, 1, 2, 3]),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ([1, 2, *(3, 4) * 3, *(3, 3, 4, 4, 4, 4, 3, 5, 4) * 2], [1, 2, 3, 4]),
        ([], []),
    ],
)
def test_repetitions_that_nobody_speaks_as_fast(tokens, kept):
    (found,) = without_loops([Hypothesis(tokens, -1.5)], 10 * len(tokens))
    assert found == Hypothesis(kept, -1.5)
    assert without_loops([Hypothesis(tokens, -1.5)], 10 * len(tokens) + 1) == [Hypothesis(tokens, -1.5)]


@pytest.mark.parametrize(
    ("no_speech", "score", "kept"),
    [(0.7, -4.1, []), (0.7, -3.9, [1, 2, 3]), (0.5, -40.0, [1, 2, 3])],
)
def test_a_text_without_speech(no_speech, score, kept):
    others = [Hypothesis([4], score - 1)]
    found = heard([Hypothesis([1, 2, 3], score), *others], no_speech)
    assert found == [Hypothesis(kept, score), *(others if kept else [])]
    assert heard([], no_speech) == []
    assert heard([Hypothesis([1, 2, 3], score / 4), *others], no_speech, 1.0)[0].tokens == kept


@pytest.fixture
def unsure():
    """A decoder that is not sure of any token and says that there is no speech."""
    torch.manual_seed(0)
    prompt = {"start": 20, "no_timestamps": 25, "no_speech": 26}
    decoder = DiverseWhisperDecoder(30, 16, prompt, attention_heads=2, linear_units=32, num_blocks=1).eval()
    decoder.embed[0].weight.detach().mul_(0.01)
    decoder.no_speech = lambda x: torch.ones(len(x))
    return decoder


@pytest.mark.parametrize("changed", [{"penalty": 3.0}, {"hotword_weight": 2.5}, {"hotword_weight": 20.0}])
def test_a_bonus_does_not_make_a_text_spoken(unsure, changed):
    options = SearchOptions(beam_size=2, maxlenratio=-4, lm_weight=0.0, ctc_weight=0.0, **changed)
    hotwords = HotwordScorer([[3, 4, 5, 6]], 30) if "hotword_weight" in changed else None
    found = BeamSearch(unsure, None, eos=29)(torch.randn(3, 12, 16), torch.full((3,), 12), options, hotwords)
    assert [best[0].tokens for best in found] == [[]] * 3


def test_a_sure_loop_is_cut_and_not_taken_for_silence(unsure):
    """Its score is that of all its tokens, each of them sure."""
    unsure.output_layer.bias.detach()[7] = 20.0
    options = SearchOptions(beam_size=1, lm_weight=0.0, ctc_weight=0.0)
    found = BeamSearch(unsure, None, eos=29)(torch.randn(1, 12, 16), torch.tensor([12]), options)
    assert [best[0].tokens for best in found] == [[7]]


def test_a_search_by_ctc_alone_asks_no_decoder_for_speech(unsure):
    search = BeamSearch(unsure, CTC(30, 16).eval(), eos=29)
    source, lengths = torch.randn(3, 12, 16), torch.full((3,), 12)
    options = {"beam_size": 2, "maxlenratio": -4, "lm_weight": 0.0}
    for weight in (0.0, 0.5):
        found = search(source, lengths, SearchOptions(ctc_weight=weight, **options))
        assert [best[0].tokens for best in found] == [[]] * 3
    assert len(search(source[:2], lengths[:2], SearchOptions(ctc_weight=1.0, **options))) == 2
