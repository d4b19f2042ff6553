"""WikiText-103: articles and paragraphs become texts in order."""

import pytest

from espnet_diverse.corpora import Selection, wikitext103
from espnet_diverse.errors import DataError

TOKENS = [" ", " = Valkyria Chronicles III = ", " ", " The game began in @-@ 2010 . ", " = = Story = = ", " A <unk> . "]


@pytest.fixture
def tree(write_texts):
    return write_texts({f"wikitext-103/wiki.{split}.tokens": TOKENS * 2 for split in ("train", "valid", "test")})


def test_texts(tree):
    sets = wikitext103.prepare(tree)
    assert list(sets) == ["train", "dev", "test"]
    assert sets["dev"].text == {
        f"dev-{article:05d}-{place:04d}": text
        for article in (1, 2)
        for place, text in enumerate(
            ["= Valkyria Chronicles III =", "The game began in @-@ 2010 .", "= = Story = =", "A ⁇ ."]
        )
    }
    assert sets["train"].is_text and not sets["train"].conditions
    lower = wikitext103.prepare(tree / "wikitext-103", Selection(case="lower"))
    assert lower["test"].text["test-00001-0000"] == "= valkyria chronicles iii ="


def test_bad_input(tree, tmp_path):
    with pytest.raises(DataError, match="no WikiText-103 in .*: there is no wiki.train.tokens; unpack wikitext-103-v1"):
        wikitext103.prepare(tmp_path / "nowhere")
    valid = tree / "wikitext-103" / "wiki.valid.tokens"
    valid.write_bytes(b"one\ntwo \x07\nthr\xe9\n")
    with pytest.raises(
        DataError, match=f"^2 faults: {valid}:2: transcript contains the control .*; {valid}:3: not utf-8"
    ):
        wikitext103.prepare(tree)
    dropped = wikitext103.prepare(tree, Selection(on_bad="drop"))["dev"].dropped
    assert list(dropped) == ["dev-00000-0002", "dev-line3"]
    valid.write_text(" \n")
    with pytest.raises(DataError, match=f"^{valid}: holds no text; get it again$"):
        wikitext103.prepare(tree)
