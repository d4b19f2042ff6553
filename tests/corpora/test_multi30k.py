"""Multi30k: its repository, plain files, tokenised files, test sets that some languages lack."""

import pytest

from espnet_diverse.corpora import Selection, multi30k
from espnet_diverse.errors import DataError

SPLITS = ("train", "val", "test_2016_flickr", "test_2017_flickr")


@pytest.fixture
def tree(write_texts):
    lines = {
        f"{split}.{language}": [f"{language} {split}"] for split in SPLITS for language in ("en", "de", "fr", "cs")
    }
    return write_texts({name: text for name, text in lines.items() if name != "test_2017_flickr.cs"})


def test_english_to_german_is_the_default(tree):
    sets = multi30k.prepare(tree)
    assert list(sets) == ["train", "dev", "test_2016_flickr", "test_2017_flickr"]
    assert sets["dev"].src_text == {"en-de-multi30k-dev-0000001": "en val"}
    assert sets["test_2017_flickr"].text == {"en-de-multi30k-test_2017_flickr-0000001": "de test_2017_flickr"}


def test_a_set_without_a_language_lacks_its_directions(tree):
    sets = multi30k.prepare(tree, Selection(pairs=("cs-en", "fr-de"), zero_shot=("cs-de",)))
    assert [key[:5] for key in sets["test_2017_flickr"].text] == ["fr-de"]
    assert sorted(key[:5] for key in sets["test_2016_flickr"].text) == ["cs-de", "cs-en", "fr-de"]
    assert set(multi30k.prepare(tree, Selection(pairs=("cs-en",)))) == set(multi30k.SETS)


def test_no_other_direction_is_trained_in_place_of_the_default(tree):
    with pytest.raises(DataError, match="no sentences for the set train .*; get its files, or name other directions"):
        multi30k.prepare(tree, Selection(zero_shot=("en-de",)))
    tested = multi30k.prepare(tree, Selection(zero_shot=("en-de",), sets=("test",)))
    assert {key[:5] for key in tested["test_2016_flickr"].text} == {"en-de"}


def test_the_repositorys_tokenised_files(write_texts):
    names = [f"{split}.lc.norm.tok.{language}" for split in SPLITS[:3] for language in ("en", "de")]
    tree = write_texts({f"tok/{name}": ["a man &apos;s dog ."] for name in names})
    assert set(multi30k.prepare(tree / "tok")["train"].text.values()) == {"a man 's dog ."}


def test_download_skips_unpublished_files(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(multi30k, "fetch_release", lambda urls, target: asked.update(urls) or target)
    assert multi30k.download(tmp_path) == tmp_path / "multi30k"
    assert len(asked) == 5 * 4 - 2
    assert f"{multi30k.URL}/train.cs.gz" in asked and f"{multi30k.URL}/test_2017_mscoco.cs.gz" not in asked
