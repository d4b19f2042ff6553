"""N-gram models in the searches, with kenlm where it is installed and with a stand-in of the same arithmetic."""

import importlib.util
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from references.arpa import stand_in, write_arpa
from references.espnet_models import write_model
from references.tones import tones

from espnet_diverse.bin.main import main
from espnet_diverse.decoding.espnet.espnet_search import load_search
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.fusion import Fusion, language_model_of
from espnet_diverse.decoding.search.ngram import NgramScorer, is_ngram
from espnet_diverse.decoding.streaming.block_search import load_block_search
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.packing.facts import Facts
from espnet_diverse.packing.pack import pack
from espnet_diverse.runs.model_files import INSIDE, NGRAM

TOKENS = ["<blank>", "<unk>", "a", "b", "c", "d", "<sos/eos>"]
MODULES = ["stand_in", *(["kenlm"] if importlib.util.find_spec("kenlm") else [])]


@pytest.fixture(params=MODULES)
def kenlm(request, monkeypatch):
    """ESPnet's scorer with `kenlm`, or with its stand-in."""
    for module in ("espnet2.legacy.nets.scorers.ngram", "espnet_diverse.upstream.ngram"):
        monkeypatch.delitem(sys.modules, module, raising=False)
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
def test_texts_and_scores_match_espnet(tiny_run, arpa, tmp_path):
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
@pytest.mark.parametrize(("end", "word"), [("<sos/eos>", "<unk>"), ("<|endoftext|>", "</s>")])
def test_the_end_of_a_text_is_that_of_a_sentence_with_whisper(arpa, end, word):
    scorer = NgramScorer(arpa, [*TOKENS[:-1], end])
    scorer.begin(torch.zeros(1, 4, 8), None)
    found, lm = scorer.score(torch.full((1, 1), len(TOKENS) - 1))[0, 0, -1], scorer.espnets.lm
    state, spare = scorer.espnets.init_state(None), scorer.espnets.init_state(None)
    lm.BaseScore(scorer.espnets.init_state(None), "<s>", state)
    assert float(found) == pytest.approx(lm.BaseScore(state, word, spare))
    assert lm.BaseScore(state, "</s>", spare) != pytest.approx(lm.BaseScore(state, "<unk>", spare))


@pytest.mark.usefixtures("kenlm")
def test_a_recurrent_decoder_takes_one_and_a_transducer_does_not(arpa, tmp_path, caplog):
    fusion, options = Fusion(arpa), SearchOptions(beam_size=2, maxlenratio=-4)
    folder = write_model(tmp_path / "rnn", "rnn")
    rnn, alone = (load_predictor(folder, options=options, fusion=each) for each in (fusion, None))
    found, without = (each.batch([each.features(tones(0.5, 0))], [{}])[0][0] for each in (rnn, alone))
    assert found.score != without.score
    with pytest.raises(ConfigError, match="ESPnet's search of a transducer takes no n-gram model; leave --lm out"):
        load_predictor(write_model(tmp_path / "transducer", "transducer"), fusion=fusion)
    inside(SimpleNamespace(model_dir=tmp_path / "transducer"), arpa, tmp_path / "exp")
    for load in (load_predictor, load_search):
        caplog.clear()
        assert load(tmp_path / "exp").used == {"model_file": "valid.acc.ave.pth"}
        said = f"{tmp_path / 'exp'}: its n-gram model is not used with a transducer; scores and texts are as without it"
        assert said in warnings(caplog)


@pytest.mark.usefixtures("kenlm")
def test_files_that_are_no_models_are_refused(tmp_path):
    with pytest.raises(ModelError, match=r"gone\.arpa: no such n-gram model; give a file of KenLM: \.arpa"):
        NgramScorer(tmp_path / "gone.arpa", TOKENS)
    (tmp_path / "bad.arpa").write_text("hello\n")
    with pytest.raises(ModelError, match=r"bad\.arpa: is not a model of KenLM \(.*\); make it with lmplz again"):
        NgramScorer(tmp_path / "bad.arpa", TOKENS)


def test_missing_kenlm_error_tells_how_to_install_it(arpa, monkeypatch):
    for module in ("espnet2.legacy.nets.scorers.ngram", "espnet_diverse.upstream.ngram"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(ConfigError, match=r"an n-gram model needs kenlm: pip install 'espnet_diverse\[kenlm\]'"):
        NgramScorer(arpa, TOKENS)


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def inside(run, arpa, folder):
    """A copy of a run with an n-gram model of its own."""
    shutil.copytree(run.model_dir, folder)
    (folder / INSIDE).mkdir()
    return shutil.copy(arpa, folder / INSIDE / NGRAM)


@pytest.mark.usefixtures("kenlm")
def test_the_ngram_model_of_a_packed_model_is_used_by_default(tiny_run, arpa, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    own = inside(tiny_run, arpa, tmp_path / "exp")
    assert language_model_of(tmp_path / "exp", Fusion(), "batched") == own
    assert language_model_of(tmp_path / "exp", Fusion(), "greedy") is None
    assert language_model_of(tmp_path / "exp", Fusion(arpa), "batched") == arpa
    found = load_predictor(tmp_path / "exp")
    assert found.language_model is not None and found.options.lm_weight == 0.3
    (said,) = warnings(caplog)
    assert "which is part of the model, counts with lm_weight 0.3; set lm_weight 0 without it" in said
    named = decoded(tiny_run, tmp_path / "named", "--lm", arpa)
    packed = tmp_path / "model.zip"
    pack(tmp_path / "exp", packed, Facts(license="mit"))
    other = SimpleNamespace(model_dir=packed, test_dir=tiny_run.test_dir)
    assert decoded(other, tmp_path / "packed") == named
    assert decoded(other, tmp_path / "espnet", "--search", "espnet")[0] == named[0]
    assert decoded(other, tmp_path / "without", "--lm_weight", "0")[1] != named[1]


@pytest.mark.usefixtures("kenlm")
def test_the_binary_format_needs_trust(tiny_run, arpa, tmp_path, monkeypatch, caplog):
    own = inside(tiny_run, arpa, tmp_path / "exp")
    own.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n" + bytes(99))
    assert language_model_of(tmp_path / "exp", Fusion(), "batched") is None
    (said,) = warnings(caplog)
    assert said == (
        f"{tmp_path / 'exp'}: its n-gram model is not used, because kenlm does not check its binary format; set "
        "ESPNET_DIVERSE_TRUST_RUNS=1 if you trust the model; scores and texts are as without it"
    )
    monkeypatch.setenv("ESPNET_DIVERSE_TRUST_RUNS", "1")
    assert language_model_of(tmp_path / "exp", Fusion(), "batched") == own


def test_a_packed_model_is_used_without_kenlm(tiny_run, arpa, tmp_path, monkeypatch, caplog):
    inside(tiny_run, arpa, tmp_path / "exp")
    monkeypatch.setitem(sys.modules, "kenlm", None)
    assert load_predictor(tmp_path / "exp").language_model is None
    (said,) = warnings(caplog)
    assert "is not used, because kenlm is not installed: pip install 'espnet_diverse[kenlm]'; scores and" in said


@pytest.mark.usefixtures("kenlm")
def test_a_stream_has_none(streaming_run, arpa, tmp_path, caplog):
    with pytest.raises(ConfigError, match="an n-gram model is not possible while streaming; leave --lm out"):
        load_block_search(streaming_run, fusion=Fusion(arpa))
    inside(SimpleNamespace(model_dir=streaming_run), arpa, tmp_path / "exp")
    load_block_search(tmp_path / "exp")
    said = f"{tmp_path / 'exp'}: its n-gram model is not used while streaming; scores and texts are as without it"
    assert said in warnings(caplog)


def test_a_file_is_known_by_its_name(tmp_path):
    assert all(is_ngram(Path(name)) for name in ("lm.arpa", "x/lm.arpa.gz", "lm.bin", "lm.binary"))
    (tmp_path / "lm.bin").mkdir()
    assert not is_ngram(tmp_path / "lm.bin") and not is_ngram(Path("exp/lm")) and not is_ngram(Path("lm.zip"))
