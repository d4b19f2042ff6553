"""The search that a model and options give; results are tested with each search."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from espnet2.lm.transformer_lm import TransformerLM
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


def test_a_neural_language_model_has_one_token_for_start_and_end(model, caplog):
    tokens = [*model.token_list[:-2], "<sos>", "<eos>"]
    other = SimpleNamespace(decoder=model.decoder, token_list=tokens, sos=len(tokens) - 2, eos=len(tokens) - 1)
    language_model = TransformerLM(len(tokens), embed_unit=4, att_unit=4, head=1, unit=4, layer=1)
    for one in (model, other):
        build_search(one, model.ctc, SearchOptions(ctc_weight=0.3), False, language_model)
    said = "texts begin with <sos> and end with <eos>, but those of the language model with <eos>"
    assert caplog.text.count("texts begin") == caplog.text.count(said) == 1
