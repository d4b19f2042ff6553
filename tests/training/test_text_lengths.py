from types import SimpleNamespace

import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.training.text_lengths import lengths, write_sizes
from espnet_diverse.vocabulary import Vocabulary


@pytest.fixture
def tokens(tmp_path):
    """A vocabulary of the characters a and b, as the tokens of a run have it."""
    vocabulary = Vocabulary("char", ("<blank>", "<unk>", "a", "b", "<space>", "<sos/eos>"))
    return SimpleNamespace(vocabularies={"text": vocabulary}, folders={"text": tmp_path / "tokens"})


def test_each_text_has_its_number_of_tokens(tmp_path, tokens):
    (tmp_path / "text").write_text("u1 ab\nu2 b a ab\n", encoding="utf-8")
    assert list(lengths(tmp_path / "text", "text", tokens, "text")) == ["u1 2", "u2 6"]


def test_a_vocabulary_of_other_texts_is_refused(tmp_path, tokens):
    """One unknown character in ten is allowed, two are not."""
    for line, allowed in (("u1 aaaaaaaaax\n", True), ("u1 aaaaaaaaxx\n", False)):
        (tmp_path / "text").write_text(line, encoding="utf-8")
        found = lengths(tmp_path / "text", "text", tokens, "text")
        if allowed:
            assert list(found) == ["u1 10"]
        else:
            with pytest.raises(DataError, match=rf"{tmp_path}/text: the vocabulary .*tokens lacks 2 of its 10 tokens"):
                list(found)


def test_sizes_of_the_vocabulary_come_after_the_lengths(tmp_path, tokens):
    (tmp_path / "lengths").write_text("u1 2\nu2 6\n", encoding="utf-8")
    write_sizes(tmp_path / "lengths", tmp_path / "sizes", tokens, "text")
    assert (tmp_path / "sizes").read_text(encoding="utf-8") == "u1 2,6\nu2 6,6\n"
