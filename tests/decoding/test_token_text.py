from argparse import Namespace

from espnet_diverse.decoding.token_text import UNKNOWN, TokenText

TOKENS = TokenText(Namespace(token_list=["<blank>", "<unk>", "<space>", "a", "b", "<sos/eos>"], token_type="char"))


def test_texts_become_indices_and_texts_again():
    assert TOKENS.encode("ab a") == [3, 4, 2, 3] and TOKENS.encode("x") == [UNKNOWN]
    assert TOKENS.indices(["b", "<space>"]) == [4, 2] and len(TOKENS) == 6
    assert TOKENS.decode([3, 0, 2, 4], -1.5) == ("a b", ["a", "<space>", "b"], -1.5)  # without blank
