"""BERTScore against sums over all pairs of tokens, with the library's own tokenizer and one text at a time."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from espnet_diverse.bin.main import main
from espnet_diverse.nets.frontends.pretrained import Embedder
from espnet_diverse.scoring.bertscore import BertScore
from espnet_diverse.scoring.significance import Bootstrap

REFERENCES = ["abcd dcba", "a", "cab", "bad dab cad"]
HYPOTHESES = ["abdc dca a", "a", "", "bad xyz dab cad"]


def embedded(model, tokenizer, text, layer):
    """Embeddings by the library, text by text, as lists of vectors."""
    with torch.no_grad():
        states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[layer][0]
    return [row / row.norm() for row in states.double()[1:-1]]


def by_hand(folder, layer):
    """P, R and F of each pair, by loops."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    rows = []
    for reference, hypothesis in zip(REFERENCES, HYPOTHESES, strict=True):
        x, y = (embedded(model, tokenizer, text, layer) for text in (reference, hypothesis))
        if not x or not y:
            rows.append((0.0, 0.0, 0.0))
            continue
        recall = sum(max(float(a @ b) for b in y) for a in x) / len(x)
        precision = sum(max(float(a @ b) for a in x) for b in y) / len(y)
        rows.append((precision, recall, 2 * precision * recall / (precision + recall)))
    return np.array(rows)


@pytest.mark.parametrize("layer", [None, 0, 1])
def test_it_equals_an_independent_computation(tiny_bert, layer):
    metric = BertScore(Embedder(tiny_bert, layer))
    found = metric.statistics(REFERENCES, HYPOTHESES, [""] * 4)
    expected = by_hand(tiny_bert, -1 if layer is None else layer)
    np.testing.assert_allclose(found[:, 1:], expected, atol=1e-5)
    assert metric.score(found.sum(0)) == pytest.approx(100 * expected[:, 2].mean(), abs=1e-3)


def test_the_same_text_has_all_points(tiny_bert):
    metric = BertScore(Embedder(tiny_bert))
    sums = metric.statistics(REFERENCES, REFERENCES, [""] * 4).sum(0)
    assert metric.score(sums) == pytest.approx(100, abs=1e-3) and metric.cells(4, sums) == ["4", *["100.00"] * 3]
    assert metric.details(sums)["sentences"] == 4


def test_the_signature_names_encoder_and_layer(tiny_bert):
    metric = BertScore(Embedder(tiny_bert, 1))
    expected = f"BERTScore|model:{tiny_bert.name}|layer:1|idf:no|rescaled:no|bs:100|seed:1"
    assert metric.signature([""], Bootstrap(100, 1)) == expected


def test_the_command(tiny_bert, tmp_path, capsys):
    for name, texts in (("reference", REFERENCES), ("hypothesis", HYPOTHESES)):
        (tmp_path / name).write_text("".join(f"u{index} {text}\n" for index, text in enumerate(texts)))
    files = ["--reference", str(tmp_path / "reference"), "--hypothesis", str(tmp_path / "hypothesis")]
    arguments = ["score", *files, "--output_dir", str(tmp_path / "out"), "--samples", "100"]
    assert main([*arguments, "--metric", "bleu", "bertscore", "--bert_path", str(tiny_bert)]) == 0
    row = json.loads((tmp_path / "out" / "score.json").read_text())["metrics"]["bertscore"]["overall"]
    assert row["score"] == pytest.approx(100 * by_hand(tiny_bert, -1)[:, 2].mean(), abs=1e-3)
    assert "|layer:2|" in row["signature"] and row["interval"][0] <= row["score"] <= row["interval"][1]
    capsys.readouterr()
    for wrong, said in (
        (
            ["--metric", "bertscore"],
            "metric bertscore needs an encoder of the language; give its folder, --bert_path P",
        ),
        (["--bert_path", "x"], "--bert_path is for bertscore, and the metrics are cer; leave it out"),
        (["--bert_layer", "1"], "--bert_layer 1 needs an encoder; give --bert_path PATH as well"),
        (["--metric", "bertscore", "--bert_path", "/nowhere"], "/nowhere: no such folder; "),
    ):
        assert main([*arguments, *wrong]) == 1
        assert said in capsys.readouterr().err
