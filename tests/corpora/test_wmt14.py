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


def test_french_has_parts_of_its_own(write_texts):
    files = {
        "un/undoc.2000.fr-en": "nations",
        "giga-fren.release2.fixed": "web",
        "training/europarl-v7.fr-en": "speech",
    }
    texts = {f"{stem}.{side}": [f"{side} {text}"] for stem, text in files.items() for side in ("fr", "en")}
    for side in ("fr", "en"):
        texts[f"dev/newstest2013-src.{side}.sgm"] = sgm(f"{side} dev")
        for kind in ("src", "ref"):
            texts[f"test-full/newstest2014-fren-{kind}.{side}.sgm"] = sgm(f"{side} {kind}")
    root = write_texts(texts)
    sets = wmt14.prepare(root, Selection(pairs=("en-fr",)))
    assert sets["train"].text == {
        "en-fr-wmt14-train-europarl-v7-0000001": "fr speech",
        "en-fr-wmt14-train-undoc.2000-0000001": "fr nations",
        "en-fr-wmt14-train-giga-fren.release2.fixed-0000001": "fr web",
    }
    assert list(sets["train"].src_text.values()) == ["en speech", "en nations", "en web"]
    assert list(sets["test"].src_text.values()) == ["en src"] and list(sets["test"].text.values()) == ["fr ref"]
    with pytest.raises(DataError, match="there is neither .*/training/europarl-v7.de-en.de nor train.de$"):
        wmt14.prepare(root)


def test_french_is_fetched_to_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(wmt14, "fetch_release", lambda urls, target: (urls, target))
    urls, folder = wmt14.download(tmp_path, Selection(pairs=("en-fr",)))
    assert folder == tmp_path / "wmt14_fr" and urls == wmt14.URLS | wmt14.FRENCH_URLS


def test_stanfords_copy(write_texts):
    stems = ("train", "newstest2013", "newstest2014")
    tree = write_texts({f"{s}.{side}": [f"{s} rich ##AT##-##AT## text"] for s in stems for side in ("de", "en")})
    sets = wmt14.prepare(tree)
    assert sets["test"].text == {"en-de-wmt14-test-0000001": "newstest2014 rich-text"}
    assert sets["dev"].text == {"en-de-wmt14-dev-0000001": "newstest2013 rich-text"}


def test_missing_files(tree, tmp_path):
    with pytest.raises(DataError, match="no WMT14 in .*: there is neither .*europarl-v7.de-en.de nor train.de$"):
        wmt14.prepare(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="there is no direction 'en-cs'; there are: en-de de-en en-fr fr-en$"):
        wmt14.prepare(tree, Selection(pairs=("en-cs",)))
    (tree / "test-full/newstest2014-deen-ref.de.sgm").unlink()
    with pytest.raises(
        DataError, match="^no newstest2014-deen-ref.de.sgm in .* or its folders; unpack its archive there$"
    ):
        wmt14.prepare(tree)
