"""N-gram models in the searches, with kenlm where it is installed and with a stand-in of the same arithmetic."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from references.arpa import stand_in, write_arpa
from references.espnet_models import write_model
from references.tones import tones

from espnet_diverse.bin.main import main
from espnet_diverse.decoding.fusion import Fusion
from espnet_diverse.decoding.ngram import NgramScorer, is_ngram
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ConfigError, ModelError

TOKENS = ["<blank>", "<unk>", "a", "b", "c", "d", "<sos/eos>"]
MODULES = ["stand_in", *(["kenlm"] if importlib.util.find_spec("kenlm") else [])]


@pytest.fixture(params=MODULES)
def kenlm(request, monkeypatch):
    """ESPnet's scorer with `kenlm`, or with its stand-in."""
    monkeypatch.delitem(sys.modules, "espnet.nets.scorers.ngram", raising=False)
    if request.param == "stand_in":
        monkeypatch.setitem(sys.modules, "kenlm", stand_in())


@pytest.fixture
def arpa(tmp_path):
    return write_arpa(tmp_path / "lm.arpa", "abcd")


def decoded(run, output_dir, *more):
    arguments = ["decode", str(run.model_dir), "--data_dir", str(run.test_dir), "--output_dir", str(output_dir)]
    assert main([*arguments, "--minlenratio", "-3", "--maxlenratio", "-6", "--beam_size", "3", *map(str, more)]) == 0
    tables = ((output_dir / name).read_text().splitlines() for name in ("text", "score"))
    return [dict(line.split(" ", 1) for line in table) for table in tables]


@pytest.mark.usefixtures("kenlm")
def test_texts_and_scores_are_those_of_espnet(tiny_run, arpa, tmp_path):
    added = ["--lm", arpa, "--lm_weight", "0.9"]
    ours, theirs = (
        decoded(tiny_run, tmp_path / search, "--search", search, *added) for search in ("batched", "espnet")
    )
    assert ours[0] == theirs[0]
    for name, score in ours[1].items():
        assert float(score) == pytest.approx(float(theirs[1][name]), abs=1e-4)
    assert decoded(tiny_run, tmp_path / "alone")[1] != ours[1]


@pytest.mark.usefixtures("kenlm")
def test_scores_follow_the_hypotheses(arpa):
    scorer, last = NgramScorer(arpa, TOKENS), TOKENS.index("<sos/eos>")
    scorer.begin(torch.zeros(2, 4, 8), None)
    first = scorer.score(torch.full((2, 1), last))
    assert first.shape == (2, 1, len(TOKENS)) and torch.equal(first[0], first[1])
    scorer.extend(torch.zeros(2, 2, dtype=torch.long))
    both = scorer.score(torch.tensor([[2, 3], [4, 5]]))
    scorer.keep(torch.tensor([1]))
    scorer.extend(torch.tensor([[1, 0]]))
    third = scorer.score(torch.tensor([[2, 2]]))
    state = scorer.espnets.init_state(None)
    x = torch.zeros(1)
    for prefix, expected in (([last], first[0, 0]), ([last, 5], both[1, 1]), ([last, 5, 2], third[0, 0])):
        theirs, state = scorer.espnets.score(torch.tensor(prefix), state, x)
        torch.testing.assert_close(theirs, expected)


@pytest.mark.usefixtures("kenlm")
def test_a_recurrent_decoder_takes_one_and_a_transducer_does_not(arpa, tmp_path):
    fusion, options = Fusion(arpa), Options(beam_size=2, maxlenratio=-4)
    folder = write_model(tmp_path / "rnn", "rnn")
    rnn, alone = (load_predictor(folder, options=options, fusion=each) for each in (fusion, None))
    found, without = (each.batch([each.features(tones(0.5, 0))], [{}])[0][0] for each in (rnn, alone))
    assert found.score != without.score
    with pytest.raises(ConfigError, match="ESPnet's search of a transducer takes no n-gram model; leave --lm out"):
        load_predictor(write_model(tmp_path / "transducer", "transducer"), fusion=fusion)


@pytest.mark.usefixtures("kenlm")
def test_files_that_are_no_models_are_refused(tmp_path):
    with pytest.raises(ModelError, match=r"gone\.arpa: no such n-gram model; give a file of KenLM: \.arpa"):
        NgramScorer(tmp_path / "gone.arpa", TOKENS)
    (tmp_path / "bad.arpa").write_text("hello\n")
    with pytest.raises(ModelError, match=r"bad\.arpa: is not a model of KenLM \(.*\); make it with lmplz again"):
        NgramScorer(tmp_path / "bad.arpa", TOKENS)


def test_without_kenlm_one_line_says_what_to_install(arpa, monkeypatch):
    monkeypatch.delitem(sys.modules, "espnet.nets.scorers.ngram", raising=False)
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(ConfigError, match=r"an n-gram model needs kenlm: pip install 'espnet_diverse\[kenlm\]'"):
        NgramScorer(arpa, TOKENS)


def test_a_file_is_known_by_its_name(tmp_path):
    assert all(is_ngram(Path(name)) for name in ("lm.arpa", "x/lm.arpa.gz", "lm.bin", "lm.binary"))
    (tmp_path / "lm.bin").mkdir()
    assert not is_ngram(tmp_path / "lm.bin") and not is_ngram(Path("exp/lm")) and not is_ngram(Path("lm.zip"))
