from argparse import Namespace

import pytest

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
