from argparse import Namespace

import pytest
import sentencepiece

from espnet_diverse.decoding.search.hotwords import load_hotwords
from espnet_diverse.decoding.token_text import UNKNOWN, TokenText
from espnet_diverse.errors import ModelError

TOKENS = TokenText(Namespace(token_list=["<blank>", "<unk>", "<space>", "a", "b", "<sos/eos>"], token_type="char"))


def test_texts_become_indices_and_texts_again():
    assert TOKENS.encode("ab a") == [3, 4, 2, 3] and TOKENS.encode("x") == [UNKNOWN]
    assert TOKENS.indices(["b", "<space>"]) == [4, 2] and len(TOKENS) == 6
    assert TOKENS.decode([3, 0, 2, 4], -1.5) == ("a b", ["a", "<space>", "b"], -1.5)  # without blank


@pytest.mark.parametrize(("kind", "pieces"), [("word", ["▁ab", "▁c"]), ("char", ["ab", "c"])])
def test_each_token_of_a_vocabulary_of_words_begins_a_word(kind, pieces):
    tokens = TokenText(Namespace(token_list=["<blank>", "<unk>", "ab", "c", "<sos/eos>"], token_type=kind))
    assert tokens.pieces(["ab", "c"]) == pieces


@pytest.mark.parametrize(
    ("given", "lacking"),
    [({}, "token_type"), ({"token_type": None}, "token_type"), ({"token_type": "bpe"}, "bpemodel")],
)
def test_a_vocabulary_that_is_not_complete_is_refused(given, lacking):
    with pytest.raises(ModelError, match=f"^config.yaml has no {lacking}; use the file that training wrote$"):
        TokenText(Namespace(token_list=["<blank>", "<unk>", "a", "<sos/eos>"], **given))


def test_a_phrase_without_spaces_has_other_tokens_inside_a_text(tmp_path):
    (tmp_path / "text").write_text("今天天气很好黄建文教授来了\n我们明天去北京看黄建文\nhello\n", "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "m"), model_type="char", vocab_size=32,
        character_coverage=1.0, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    tokens = ["<blank>", "<unk>", *map(model.id_to_piece, range(3, len(model))), "<sos/eos>"]
    known = TokenText(Namespace(token_type="bpe", bpemodel=str(tmp_path / "m.model"), token_list=tokens))
    scorer = load_hotwords(["黄建文", "hello"], "batched", known, "cpu")
    assert scorer.count(known.encode("今天黄建文教授")) == (1, 3)
    assert scorer.count(known.encode("黄建文教授 hello")) == (2, 4 + 6)
    assert known.inside(known.encode("hello")) == known.inside(known.encode("x")) == TOKENS.inside([3]) == []
