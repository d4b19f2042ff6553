"""ESPnet's scorer of n-gram models, which needs kenlm."""

import importlib
import sys

import pytest
from references.arpa import stand_in


@pytest.fixture(autouse=True)
def not_imported(monkeypatch):
    for module in ("espnet2.legacy.nets.scorers.ngram", "espnet_diverse.upstream.ngram"):
        monkeypatch.delitem(sys.modules, module, raising=False)


def test_the_scorer_is_espnets_own(monkeypatch):
    monkeypatch.setitem(sys.modules, "kenlm", stand_in())
    scorer = importlib.import_module("espnet_diverse.upstream.ngram").NgramFullScorer
    assert scorer.__module__ == "espnet2.legacy.nets.scorers.ngram"


def test_without_kenlm_the_import_fails(monkeypatch):
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(ImportError):
        importlib.import_module("espnet_diverse.upstream.ngram")
