"""The batched search on a trained model, against ESPnet's."""

import shutil

import pytest
import torch
import yaml

from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.decode_dir import decode
from espnet_diverse.decoding.espnet_search import load_search
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import load_batched_search
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.scope import current
from espnet_diverse.training import checkpoint


@pytest.mark.parametrize("changed", [{}, {"ctc_weight": 0.0}, {"batch_size": 1, "penalty": 0.1}], ids=str)
def test_texts_and_scores_are_those_of_espnet(tiny_run, tmp_path, changed):
    options = Options(**{"beam_size": 4, "ctc_weight": 0.4} | changed)
    theirs = decode(load_search(tiny_run.model_dir, options=options), tiny_run.test_dir, tmp_path / "theirs")
    ours = decode(load_batched_search(tiny_run.model_dir, options=options), tiny_run.test_dir, tmp_path / "ours")
    for one, other in zip(ours, theirs, strict=True):
        assert (one.utterance, one.text, one.tokens) == (other.utterance, other.text, other.tokens)
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_the_best_hypotheses_come_in_order(tiny_run):
    search = load_batched_search(tiny_run.model_dir, options=Options(beam_size=4, nbest=3))
    frames, seconds = search.read(str(tiny_run.test_dir / "test-00.wav"))
    (best,) = search.batch([frames], [{}])
    assert seconds == 0.75 and len(best) == 3
    assert [text.score for text in best] == sorted((text.score for text in best), reverse=True)
    assert best[0].text == "".join(best[0].tokens)


def test_greedy_search_reads_ctc_alone(tiny_run, tmp_path):
    search = load_batched_search(tiny_run.model_dir, options=Options(search="greedy"))
    outcomes = decode(search, tiny_run.test_dir, tmp_path)
    assert len(outcomes) == 3 and all(outcome.score < 0 for outcome in outcomes)


def test_each_utterance_is_decoded_for_its_own_tasks(tiny_run, tmp_path):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    shutil.copy(tiny_run.test_dir / "wav.scp", data_dir)
    (data_dir / "utt2lang").write_text("test-00 de\ntest-01 ar\ntest-02 de\n")
    search, heard = load_batched_search(tiny_run.model_dir), []

    def listen(source, lengths):
        heard.append({condition: ids.tolist() for condition, ids in current().conditions.items()})
        return [[] for _ in lengths]

    search.conditions, search.search = KnownConditions({"lang": ["ar", "de"], "tgtlang": ["ar", "de"]}), listen
    decode(search, data_dir, tmp_path / "out")
    assert heard == [{"lang": [1, 0, 1], "tgtlang": [1, 0, 1]}] and current().conditions == {}


def test_weights_are_checked(tiny_run, tmp_path):
    state = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    del state["ctc.ctc_lo.bias"]
    torch.save(state, tmp_path / "bad.pth")
    with pytest.raises(ModelError, match=r"bad\.pth does not fit .* 1 missing: ctc\.ctc_lo\.bias"):
        load_batched_search(tiny_run.model_dir, tmp_path / "bad.pth")


@pytest.mark.parametrize(
    ("changed", "options", "error", "said"),
    [
        ({"task": "lm"}, Options(), ModelError, "config.yaml: a model of task lm writes no text; known: asr st mt"),
        ({"model_conf": {"ctc_weight": 0.0}}, Options(ctc_weight=0.4), ConfigError, "0.4 is not possible: .* without"),
        (
            {"model_conf": {"ctc_weight": 0.0}},
            Options(search="greedy"),
            ConfigError,
            "greedy is not possible: .* without",
        ),
    ],
)
def test_a_model_that_cannot_be_searched_so_is_refused(tiny_run, tmp_path, changed, options, error, said):
    for name in ("valid.acc.ave.pth", "feats_stats.npz"):
        shutil.copy(tiny_run.model_dir / name, tmp_path)
    config = yaml.safe_load((tiny_run.model_dir / "config.yaml").read_text()) | changed
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(error, match=said):
        load_batched_search(tmp_path, options=options)
