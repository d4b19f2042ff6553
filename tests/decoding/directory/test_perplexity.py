import json
import math

import pytest
import torch

from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.directory import perplexity as module
from espnet_diverse.decoding.directory.perplexity import Scorer, line, perplexity
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.nets.models import DiverseLanguageModel
from espnet_diverse.text.vocabulary import Vocabulary

TEXTS = {"u1": "ab b", "u2": "b", "u3": "aab"}


class Uniform(torch.nn.Module):
    """A language model to which all of five tokens are the same."""

    def forward(self, tokens, hidden):
        return torch.zeros(*tokens.shape, 5), None


@pytest.fixture
def scorer(monkeypatch):
    scorer = Scorer.__new__(Scorer)
    scorer.model = DiverseLanguageModel.__new__(DiverseLanguageModel)
    torch.nn.Module.__init__(scorer.model)
    scorer.model.lm, scorer.model.eos, scorer.model.sos, scorer.model.ignore_id = Uniform(), 4, 4, 0
    scorer.vocabulary = Vocabulary("char", ["<blank>", "<unk>", "a", "b", "<sos/eos>"])
    scorer.conditions, scorer.device = KnownConditions(), "cpu"
    return scorer


def write(path, texts):
    path.mkdir()
    (path / "text").write_text("".join(f"{name} {text}\n" for name, text in texts.items()))
    return path


@pytest.mark.parametrize("batch_tokens", [1, 4000])
def test_the_perplexity_of_a_uniform_model_is_the_number_of_its_tokens(scorer, tmp_path, monkeypatch, batch_tokens):
    monkeypatch.setattr(module, "BATCH_TOKENS", batch_tokens)
    numbers = perplexity(scorer, write(tmp_path / "data", TEXTS), tmp_path / "out")
    tokens, words = 4 + 1 + 3 + 3, 2 + 1 + 1 + 3
    assert numbers["tokens"] == tokens and numbers["words"] == words and numbers["unknown_tokens"] == 1  # the space
    assert (tmp_path / "out" / "score").read_text().splitlines()[1] == f"u2 {-2 * math.log(5):.4f}"
    written = json.loads((tmp_path / "out" / "perplexity.json").read_text())
    log_likelihood, by_word = round(-tokens * math.log(5), 4), round(5 ** (tokens / words), 4)
    assert written == numbers
    assert written == {
        **{"texts": 3, "tokens": tokens, "unknown_tokens": 1, "words": words},
        **{"log_likelihood": log_likelihood, "perplexity": 5.0, "word_perplexity": by_word},
    }
    assert line(numbers) == f"3 texts: perplexity 5.00 of 11 tokens, {5 ** (11 / 7):.2f} of 7 words"


def test_the_perplexity_by_word_of_a_long_text_without_spaces_has_no_bound(scorer, tmp_path):
    numbers = perplexity(scorer, write(tmp_path / "data", {"u1": "ab" * 1000}), tmp_path / "out")
    assert (numbers["perplexity"], numbers["word_perplexity"]) == (5.0, math.inf)
    written = json.loads((tmp_path / "out" / "perplexity.json").read_text())
    assert written == {**numbers, "word_perplexity": None}  # JSON has no infinity
    assert line(numbers) == "1 texts: perplexity 5.00 of 2001 tokens, inf of 2 words"


def test_a_folder_that_another_process_writes_to_is_refused(scorer, tmp_path):
    with folder_lock(tmp_path / "out"), pytest.raises(DataError, match="/out: process .* writes here now"):
        perplexity(scorer, write(tmp_path / "data", {"u1": "ab"}), tmp_path / "out")


def test_nothing_to_score_is_refused(scorer, tmp_path):
    with pytest.raises(DataError, match="text: is empty"):
        perplexity(scorer, write(tmp_path / "data", {}), tmp_path / "out")


def test_other_models_have_no_perplexity(tiny_translation):
    with pytest.raises(ModelError, match="exp: is a model of task mt, not a language model; give a run of task lm"):
        Scorer(tiny_translation.model_dir)
