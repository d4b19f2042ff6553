"""Classification of a data directory: measures of a net with known probabilities, files, and errors."""

import json
from math import log, sqrt

import pytest
import torch

from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.decoding.directory.classification import MEASURES, Classifier, cells, classify, line
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.nets.classification.sentence_classifier import Classified
from espnet_diverse.text.vocabulary import Vocabulary

TEXTS = {"u1": "a", "u2": "ab", "u3": "b", "u4": "bba"}
LABELS = {"u1": "de", "u2": "en", "u3": "en", "u4": "en"}


class FirstToken(torch.nn.Module):
    """Says en with probability 3/4 after a first b, and de with 9/10 else; its two heads are as far apart as T."""

    by, labels, pairs = "lang", ["de", "en"], False

    def forward(self, text, lengths):
        probabilities = torch.where((text[:, :1] == 3), torch.tensor([0.25, 0.75]), torch.tensor([0.9, 0.1]))
        heads = torch.stack([torch.zeros(len(text), 1), lengths[:, None].float()], dim=1)
        return Classified(probabilities.log(), heads.unsqueeze(1))


@pytest.fixture
def classifier():
    classifier = Classifier.__new__(Classifier)
    classifier.net, classifier.device = FirstToken(), "cpu"
    classifier.vocabulary = Vocabulary("char", ["<blank>", "<unk>", "a", "b", "<sos/eos>"])
    return classifier


@pytest.fixture
def data(tmp_path):
    def write(**tables):
        for name, table in tables.items():
            (tmp_path / name).write_text("".join(f"{utterance} {value}\n" for utterance, value in table.items()))
        return tmp_path

    return write


def test_the_measures_and_the_files(classifier, data, tmp_path):
    numbers = classify(classifier, data(text=TEXTS, utt2lang=LABELS), tmp_path / "out")
    assert (tmp_path / "out" / "label").read_text() == "u1 de\nu2 de\nu3 en\nu4 en\n"
    assert (tmp_path / "out" / "confidence").read_text() == "u1 0.9\nu2 0.9\nu3 0.75\nu4 0.75\n"
    assert json.loads((tmp_path / "out" / "classification.json").read_text()) == numbers
    # u2 is wrong: the bin of 0.9 is right half of the time, that of 0.75 always.
    entropy = [-(p * log(p) + (1 - p) * log(1 - p)) for p in (0.9, 0.75)]
    expected = {"texts": 4, "dist": 1.75, "accuracy": 75.0, "ece": 50 * (0.4 + 0.25), "oe": 50 * 0.9 * 0.4}
    # The only de is said first together with u2, the three en with a tie at their end: 2.5 of 3 pairs are in order.
    expected |= {"f1": 100 * (2 / 3 + 4 / 5) / 2, "auc": 250 / 3, "auc_pr": 50 * (1 / 2 + (2 * 1 + 3 / 4) / 3)}
    expected |= {"mcc": 1 / sqrt(3), "entropy": sum(entropy) / 2}
    by_class = numbers.pop("f1_by_class")
    assert numbers == pytest.approx(expected, abs=1e-4)
    assert by_class == pytest.approx({"de": 200 / 3, "en": 80}, abs=1e-4)
    shown = ["4", "75.00", "1.750", "32.50", "18.00", "73.33", "83.33", "70.83", "0.577", "0.444"]
    assert cells(numbers) == shown
    titled = ", ".join(f"{title} {cell}" for title, cell in zip(MEASURES.values(), shown[1:], strict=True))
    assert line(numbers) == f"4 texts: {titled}"


def test_texts_without_classes_are_classified(classifier, data, tmp_path):
    numbers = classify(classifier, data(text=TEXTS), tmp_path / "out")
    assert numbers == {"texts": 4, "dist": 1.75, "entropy": pytest.approx(0.4437, abs=1e-4)}
    assert cells(numbers) == ["4", "", "1.750", "", "", "", "", "", "", "0.444"]
    assert line(numbers) == "4 texts: Dist 1.750, Entropy 0.444"


def test_the_entropy_of_texts_of_another_domain(classifier, data, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "text").write_text("v1 b\nv2 b\nv3 a\n")
    numbers = classify(classifier, data(text=TEXTS), tmp_path / "out", tmp_path / "other")
    # Two of three are as uncertain as half of the texts here and more than the others, the third is less by half a tie.
    expected = {"texts": 3, "entropy": (2 * 0.5623 + 0.3251) / 3, "auc": 100 * (0.75 + 0.75 + 0.25) / 3}
    assert numbers["out_of_domain"] == pytest.approx(expected, abs=1e-3)
    assert line(numbers).endswith("; 3 out of domain: Entropy 0.483, higher in 58.33 % of pairs")
    assert json.loads((tmp_path / "out" / "classification.json").read_text()) == numbers


class FirstTokens(FirstToken):
    """Says en where both texts of a pair begin alike."""

    pairs = True

    def forward(self, text, lengths, src_text, src_lengths):
        alike = text[:, :1] == src_text[:, :1]
        heads = torch.stack(
            [torch.zeros(len(text), 2, 1), torch.stack([src_lengths, lengths], 1)[..., None]], 2
        ).float()
        return Classified(torch.where(alike, torch.tensor([0.2, 0.8]), torch.tensor([0.9, 0.1])).log(), heads)


def test_pairs_of_texts(classifier, data, tmp_path):
    classifier.net = FirstTokens()
    with pytest.raises(DataError, match="has no src_text with the first texts of pairs, which this model classifies"):
        classify(classifier, data(text=TEXTS), tmp_path / "out")
    with pytest.raises(DataError, match="src_text: lacks u4; add its text"):
        classify(classifier, data(src_text=dict.fromkeys(["u1", "u2", "u3"], "b")), tmp_path / "out")
    numbers = classify(classifier, data(src_text=dict.fromkeys(TEXTS, "bb")), tmp_path / "out")
    assert (tmp_path / "out" / "label").read_text() == "u1 de\nu2 de\nu3 en\nu4 en\n"
    assert numbers["dist"] == (1.75 + 2) / 2


def test_a_text_without_its_class_is_named(classifier, data, tmp_path):
    few = {name: label for name, label in LABELS.items() if name != "u3"}
    with pytest.raises(DataError, match="utt2lang: lacks u3; add its class, or remove the table"):
        classify(classifier, data(text=TEXTS, utt2lang=few), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_another_process_writes_to_is_refused(classifier, data, tmp_path):
    with folder_lock(tmp_path / "out"), pytest.raises(DataError, match="/out: process .* writes here now"):
        classify(classifier, data(text=TEXTS), tmp_path / "out")


def test_one_head_has_no_distance(classifier, data, tmp_path):
    classifier.net.forward = lambda text, lengths: Classified(
        torch.zeros(len(text), 2), torch.zeros(len(text), 1, 1, 3)
    )
    assert classify(classifier, data(text=TEXTS), tmp_path / "out")["dist"] == 0


def test_a_trained_classifier(tiny_classifier, tmp_path):
    numbers = classify(Classifier(tiny_classifier.model_dir), tiny_classifier.valid_dir, tmp_path / "out")
    assert numbers["texts"] == 6 and numbers["accuracy"] == 100 and numbers["dist"] > 0


def test_other_models_have_no_classes(tiny_translation):
    with pytest.raises(ModelError, match="exp: a model of task mt has no classes; give a run of task cls"):
        Classifier(tiny_translation.model_dir)


def test_an_empty_text_is_a_text_of_tokens_too(classifier, monkeypatch):
    def checked(text, lengths):
        assert text.dtype == torch.long
        return FirstToken.forward(None, text, lengths)

    monkeypatch.setattr(classifier.net, "forward", checked)
    assert [each.label for each in classifier([([],), ([3],), ([2],)])] == ["de", "en", "de"]
