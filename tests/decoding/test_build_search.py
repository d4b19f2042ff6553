"""The search that a model and options give; results are tested with each search."""

import pytest

from espnet_diverse.contrib.flowseq import FlowDecoder
from espnet_diverse.decoding.build_search import build_search
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.search.greedy import GreedySearch
from espnet_diverse.decoding.search.hotwords import HotwordScorer
from espnet_diverse.decoding.search.one_pass import OnePassSearch
from espnet_diverse.decoding.search.sampling import SamplingSearch
from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.tasks import load_model


@pytest.fixture(scope="module")
def model(tiny_run):
    return load_model(tiny_run.model_dir)[0].eval()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (Options(ctc_weight=0.3), BeamSearch),
        (Options(search="greedy", ctc_weight=0.3), GreedySearch),
        (Options(search="sampling", ctc_weight=0.0), SamplingSearch),
    ],
)
def test_the_options_decide(model, options, kind):
    assert isinstance(build_search(model, model.ctc, options, of_text=False), kind)


def test_by_ctc_alone_there_is_no_decoder(model):
    assert build_search(model, model.ctc, Options(ctc_weight=1.0), of_text=False).decoder is None


def test_one_pass_takes_nothing_else():
    flow = type("Model", (), {"decoder": FlowDecoder.__new__(FlowDecoder), "eos": 7})
    with pytest.raises(ConfigError, match="a non-autoregressive model has neither language model nor hotwords"):
        build_search(flow, None, Options(ctc_weight=0.0), True, hotwords=HotwordScorer([[1]], 8))
    assert isinstance(build_search(flow, None, Options(ctc_weight=0.0), True), OnePassSearch)
