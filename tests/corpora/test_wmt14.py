"""WMT14: the official release, Stanford's copy and fairseq's output."""

import pytest

from espnet_diverse.corpora import Selection, wmt14
from espnet_diverse.errors import ConfigError, DataError


def sgm(*texts: str) -> list[str]:
    return [
        "<srcset>",
        '<doc docid="x">',
        *(f"<seg id='{n}'>{text}</seg>" for n, text in enumerate(texts, 1)),
        "</doc>",
    ]


@pytest.fixture
def tree(write_texts):
    files = {}
    for language in ("de", "en"):
        files[f"training/europarl-v7.de-en.{language}"] = [f"{language} parliament", ""]
        files[f"commoncrawl.de-en.{language}"] = [f"{language} web", "x " * (251 if language == "de" else 240)]
        files[f"training/news-commentary-v9.de-en.{language}"] = [f"{language} news"]
        files[f"dev/newstest2013-src.{language}.sgm"] = sgm(f"{language} AT&amp;T")
        files[f"test-full/newstest2014-deen-src.{language}.sgm"] = sgm(f"{language} source")
        files[f"test-full/newstest2014-deen-ref.{language}.sgm"] = sgm(f"{language} reference")
    return write_texts(files)


def test_official_release(tree):
    sets = wmt14.prepare(tree, Selection(on_bad="drop"))
    assert sets["train"].text == {
        "en-de-wmt14-train-europarl-v7-0000001": "de parliament",
        "en-de-wmt14-train-commoncrawl-0000001": "de web",
        "en-de-wmt14-train-news-commentary-v9-0000001": "de news",
    }
    assert sets["train"].dropped == {
        "en-de-wmt14-train-commoncrawl-0000002": "251 words, more than 250",
    }
    assert (sets["dev"].src_text, sets["dev"].text) == (
        {"en-de-wmt14-dev-0000003": "en AT&T"},
        {"en-de-wmt14-dev-0000003": "de AT&T"},
    )
    assert sets["test"].src_text == {"en-de-wmt14-test-0000003": "en source"}
    assert sets["test"].text == {"en-de-wmt14-test-0000003": "de reference"}
    reverse = wmt14.prepare(tree, Selection(pairs=("de-en",), on_bad="drop"))
    assert reverse["test"].text == {"de-en-wmt14-test-0000003": "en reference"}


def test_stanfords_copy(write_texts):
    stems = ("train", "newstest2013", "newstest2014")
    tree = write_texts({f"{s}.{side}": [f"{s} rich ##AT##-##AT## text"] for s in stems for side in ("de", "en")})
    sets = wmt14.prepare(tree)
    assert sets["test"].text == {"en-de-wmt14-test-0000001": "newstest2014 rich-text"}
    assert sets["dev"].text == {"en-de-wmt14-dev-0000001": "newstest2013 rich-text"}


def test_missing_files(tree, tmp_path):
    with pytest.raises(DataError, match="no WMT14 in .*: there is neither .*europarl-v7.de-en.de nor train.de$"):
        wmt14.prepare(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="there is no direction 'en-fr'; there are: en-de de-en$"):
        wmt14.prepare(tree, Selection(pairs=("en-fr",)))
    (tree / "test-full/newstest2014-deen-ref.de.sgm").unlink()
    with pytest.raises(
        DataError, match="^no newstest2014-deen-ref.de.sgm in .* or its folders; unpack its archive there$"
    ):
        wmt14.prepare(tree)
