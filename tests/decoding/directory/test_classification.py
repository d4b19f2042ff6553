"""Classification of a data directory: measures of a net with known probabilities, files, and errors."""

import json

import pytest
import torch

from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.decoding.directory.classification import Classifier, cells, classify, line
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.nets.classification.sentence_classifier import Classified
from espnet_diverse.text.vocabulary import Vocabulary

TEXTS = {"u1": "a", "u2": "ab", "u3": "b", "u4": "bba"}
LABELS = {"u1": "de", "u2": "en", "u3": "en", "u4": "en"}


class FirstToken(torch.nn.Module):
    """Says en with probability 3/4 after a first b, and de with 9/10 else; its two heads are as far apart as T."""

    by, labels = "lang", ["de", "en"]

    def forward(self, text, lengths):
        probabilities = torch.where((text[:, :1] == 3), torch.tensor([0.25, 0.75]), torch.tensor([0.9, 0.1]))
        heads = torch.stack([torch.zeros(len(text), 1), lengths[:, None].float()], dim=1)
        return Classified(probabilities.log(), heads)


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
    expected = {"texts": 4, "dist": 1.75, "accuracy": 75.0, "ece": 50 * (0.4 + 0.25), "oe": 50 * 0.9 * 0.4}
    assert numbers == pytest.approx(expected, abs=1e-4)
    assert cells(numbers) == ["4", "75.00", "1.750", "32.50", "18.00"]
    assert line(numbers) == "4 texts: Accuracy 75.00, Dist 1.750, ECE 32.50, OE 18.00"


def test_texts_without_classes_are_classified(classifier, data, tmp_path):
    numbers = classify(classifier, data(text=TEXTS), tmp_path / "out")
    assert numbers == {"texts": 4, "dist": 1.75}
    assert cells(numbers) == ["4", "", "1.750", "", ""] and line(numbers) == "4 texts: Dist 1.750"


def test_a_text_without_its_class_is_named(classifier, data, tmp_path):
    few = {name: label for name, label in LABELS.items() if name != "u3"}
    with pytest.raises(DataError, match="utt2lang: lacks u3; add its class, or remove the table"):
        classify(classifier, data(text=TEXTS, utt2lang=few), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_another_process_writes_to_is_refused(classifier, data, tmp_path):
    with folder_lock(tmp_path / "out"), pytest.raises(DataError, match="/out: process .* writes here now"):
        classify(classifier, data(text=TEXTS), tmp_path / "out")


def test_one_head_has_no_distance(classifier, data, tmp_path):
    classifier.net.forward = lambda text, lengths: Classified(torch.zeros(len(text), 2), torch.zeros(len(text), 1, 3))
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
    assert [each.label for each in classifier([[], [3], [2]])] == ["de", "en", "de"]
