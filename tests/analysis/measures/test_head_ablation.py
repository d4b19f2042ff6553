"""Masking heads one at a time: what is found where the importance of each head is known."""

import shutil
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from references.ablations import ablation
from torch import nn

from espnet_diverse.analysis.collect import KINDS, attentions
from espnet_diverse.analysis.measures.head_ablation import HEADER, ablate_heads, maskable, without_head
from espnet_diverse.analysis.samples import batches
from espnet_diverse.analysis.token_predictions import encode, predict_tokens
from espnet_diverse.attention import MultiHeadAttention, build_attention
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import Predictor, load_predictor
from espnet_diverse.errors import ModelError
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.scoring.build import build_metrics

WIDTH = 8  # of a head of the tiny models


def changed(run, task, kind, head, scale=1):
    """The model of a run, in which an attention does not read one head; `scale` multiplies the effect of the other."""
    model, args = load_model(run.model_dir, task=task)
    weight = attentions(model)[kind][0].linear_out.weight.data.unflatten(1, (2, WIDTH))
    weight *= scale
    weight[:, head] = 0
    return Predictor(model, args, task, SearchOptions(beam_size=1))


def loss(predictor, samples):
    (batch,) = batches(predictor, samples)
    return predict_tokens(predictor, batch, encode(predictor, batch)).loss.double().mean().item()


def test_each_score_matches_a_model_without_the_head(translated, tiny_translation):
    predictor, samples = translated
    found = ablate_heads(predictor, samples, "loss")
    assert {kind: scores.shape for kind, scores in found.scores.items()} == dict.fromkeys(KINDS, (1, 2))
    for kind, scores in found.scores.items():
        for head in range(2):
            without = changed(tiny_translation, "mt", kind, head)
            assert scores[0, head] == pytest.approx(loss(without, samples), abs=1e-5)
    assert found.score == pytest.approx(loss(predictor, samples))  # nothing stays masked
    assert found.utterances == len(samples) and min(abs(each).max() for each in found.drops().values()) > 1e-4


@pytest.mark.parametrize("metric", ["accuracy", "cer", "chrf"])
def test_accuracy_and_scores_of_decoded_text(recognition, tiny_run, metric):
    predictor, samples = changed(tiny_run, "asr", "cross", 1, scale=100), recognition[1]
    found = ablate_heads(predictor, samples, metric)
    assert found.scores["cross"][0, 1] == pytest.approx(found.score)
    assert found.scores["cross"][0, 0] != pytest.approx(found.score)
    assert all(np.isfinite(each).all() for each in found.scores.values())


def test_texts_of_a_language_have_one_unit_in_every_batch(recognition, monkeypatch):
    """A text in Latin letters among Japanese ones is cut into characters too, as by the command `score`."""
    predictor, (sample, *_) = recognition
    texts = {"きょうはいい": "きょうはよい", "ok google play it": "ok googles played it", "かれはほん": "かれはえ"}
    samples = [replace(sample, utterance=text, text=text, language="ja") for text in texts]
    for count in (1, 3):
        answers = iter([[SimpleNamespace(text=text)] for text in texts.values()])
        monkeypatch.setattr(predictor, "batch", lambda sources, _, answers=answers: list(islice(answers, len(sources))))
        cut = [samples[at : at + count] for at in range(0, 3, count)]
        monkeypatch.setattr("espnet_diverse.analysis.measures.head_ablation.batches", lambda *_, cut=cut: cut)
        monkeypatch.setattr("espnet_diverse.analysis.measures.head_ablation.maskable", lambda model: {})
        metric = build_metrics(["bleu"])["bleu"]
        expected = metric.statistics(list(texts), list(texts.values()), ["ja"] * 3).sum(0)
        assert ablate_heads(predictor, samples, "bleu").score == pytest.approx(float(metric.score(expected)))


def test_a_drop_is_positive_where_the_score_is_worse():
    scores = {"encoder": np.array([[30.0, 20.0]]), "cross": np.array([[25.0, 40.0]])}
    errors, points = (ablation(metric, 2, 25.0, scores) for metric in ("wer", "bleu"))
    np.testing.assert_array_equal(errors.drops()["encoder"], [[5.0, -5.0]])
    np.testing.assert_array_equal(points.drops()["cross"], [[0.0, -15.0]])
    lines = [line.split("\t") for line in errors.tsv().splitlines()]
    assert tuple(lines[0]) == HEADER and len(lines) == 5
    assert lines[4] == ["decoder cross-attention", "1", "2", "40.0000", "15.0000", "14.5000", "15.5000"]
    assert errors.certain()["encoder"].tolist() == [[1, -1]] and errors.certain()["cross"].tolist() == [[0, 1]]
    touching = replace(errors, intervals={"encoder": np.array([[[-1.0, 0.0], [0.0, 1.0], [0.5, 1.0]]])})
    assert touching.certain()["encoder"].tolist() == [[0, 0, 1]]
    assert replace(touching, utterances=1).certain()["encoder"].tolist() == [[0, 0, 0]]
    assert errors.summary()["drops"]["encoder"] == [[5.0, -5.0]]
    np.testing.assert_array_equal(errors.arrays()["cross_wer_drop"], [[0.0, 15.0]])


def test_intervals_match_resampled_utterances(recognition, tiny_run):
    predictor, samples = changed(tiny_run, "asr", "cross", 1), recognition[1]
    found = ablate_heads(predictor, samples, "loss")
    low, high = found.interval
    assert low < found.score < high
    for kind, drops in found.drops().items():
        bounds = found.intervals[kind]
        assert (bounds[..., 0] <= drops + 1e-9).all() and (drops - 1e-9 <= bounds[..., 1]).all()
    assert found.intervals["cross"][0, 1] == pytest.approx(0, abs=1e-6) and found.certain()["cross"][0, 1] == 0
    (one,) = ablate_heads(predictor, samples[:1], "loss").intervals["cross"][0, :1]
    assert one[0] == pytest.approx(one[1])  # of one utterance nothing is known


def test_a_mask_ends_with_its_block():
    module = build_attention("softmax", 8, 4)
    with without_head(module, 2):
        with without_head(module, 0):
            assert module.head_mask.tolist() == [False, True, False, True]
        assert module.head_mask.tolist() == [True, True, False, True]
        with pytest.raises(RuntimeError, match="inside"), without_head(module, 1):
            raise RuntimeError("inside")
        assert module.head_mask.tolist() == [True, True, False, True]
    assert module.head_mask is None


def test_all_heads_of_a_pool_are_masked():
    selection = {"strategy": "subset", "pool": 6, "conditions": {"lang": ["de"]}}
    module = build_attention("softmax", 8, 4, selection=selection)
    with without_head(module, 5):
        assert module.head_mask.tolist() == [True] * 5 + [False]


def test_attention_of_espnet_is_replaced(tiny_run, recognition, tmp_path):
    """A model of ESPnet's own nets loses the same by each head as ours with the same weights."""
    shutil.copytree(tiny_run.model_dir, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("stats"))
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    weights = torch.load(tmp_path / "valid.acc.ave.pth", weights_only=True)
    torch.save({k: v for k, v in weights.items() if ".core." not in k}, tmp_path / "valid.acc.ave.pth")
    ours = {}
    for prefix in ("diverse_", ""):
        for section in ("encoder", "decoder"):
            config[section] = f"{prefix}transformer"
            for name in ("attention", "cross_attention"):
                config[f"{section}_conf"].pop(name, None)
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        if prefix:
            ours = ablate_heads(load_predictor(tmp_path), recognition[1], "loss").scores
    predictor, samples = load_predictor(tmp_path), recognition[1]
    theirs = attentions(predictor.encoding.model)["encoder"]
    assert not any(isinstance(module, MultiHeadAttention) for module in theirs)
    before = loss(predictor, samples)
    found = ablate_heads(predictor, samples, "loss")
    assert found.score == pytest.approx(before, abs=1e-5)
    assert all(abs(each).min() > 1e-6 for each in found.drops().values())
    assert found.scores.keys() == ours.keys() == set(KINDS)
    for kind, scores in found.scores.items():
        np.testing.assert_allclose(scores, ours[kind], atol=1e-5)
    assert not any(module.training for module in predictor.encoding.model.modules())


def test_a_model_without_attention_is_refused():
    with pytest.raises(ModelError, match="neither encoder nor decoder has multi-head attention, whose heads could"):
        maskable(nn.Linear(1, 1))
