"""The search that a model and options give; results are tested with each search."""

from pathlib import Path

import numpy as np
import pytest
from torch import nn

from espnet_diverse.contrib.flowseq import FlowDecoder
from espnet_diverse.decoding.build_search import build_search
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.search.greedy import GreedySearch
from espnet_diverse.decoding.search.hotwords import HotwordScorer
from espnet_diverse.decoding.search.one_pass import OnePassSearch
from espnet_diverse.decoding.search.sampling import SamplingSearch
from espnet_diverse.decoding.search.shortlist import Shortlist
from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.text.lexical_table import LexicalTable


@pytest.fixture(scope="module")
def model(tiny_run):
    return load_model(tiny_run.model_dir)[0].eval()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (SearchOptions(ctc_weight=0.3), BeamSearch),
        (SearchOptions(search="greedy", ctc_weight=0.3), GreedySearch),
        (SearchOptions(search="sampling", ctc_weight=0.0), SamplingSearch),
    ],
)
def test_the_options_decide(model, options, kind):
    assert isinstance(build_search(model, model.ctc, options, of_text=False), kind)


def test_by_ctc_alone_there_is_no_decoder(model):
    assert build_search(model, model.ctc, SearchOptions(ctc_weight=1.0), of_text=False).decoder is None


def test_one_pass_takes_nothing_else():
    flow = type("Model", (), {"decoder": FlowDecoder.__new__(FlowDecoder), "eos": 7})
    with pytest.raises(ConfigError, match="a non-autoregressive model has neither language model nor hotwords"):
        build_search(flow, None, SearchOptions(ctc_weight=0.0), True, hotwords=HotwordScorer([[1]], 8))
    assert isinstance(build_search(flow, None, SearchOptions(ctc_weight=0.0), True), OnePassSearch)


@pytest.mark.parametrize(
    ("decoder", "said"),
    [
        (FlowDecoder.__new__(FlowDecoder), "has neither language model nor hotwords nor shortlist"),
        (nn.Identity(), "a shortlist is not possible: Identity has no batched search; leave it out"),
    ],
)
def test_a_shortlist_needs_our_beam_search(decoder, said):
    model = type("Model", (), {"decoder": decoder, "eos": 7, "sos": 7})
    table = LexicalTable.of_entries(np.array([0]), np.array([1]), np.array([1.0]), 1)
    with pytest.raises(ConfigError, match=said):
        build_search(model, None, SearchOptions(ctc_weight=0.0), True, shortlist=Shortlist(table, [0], Path("lex.s2t")))
