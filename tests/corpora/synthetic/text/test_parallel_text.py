"""Synthetic text corpora: what `prepare` makes of each, and what they share."""

from collections import Counter

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import tatoeba, wikitext103, wmt_languages
from espnet_diverse.corpora.synthetic.text.parallel_text import sgm_lines, write_lines
from espnet_diverse.data.kaldi import read_data_dir


@pytest.fixture
def prepared(tmp_path):
    """prepared(corpus, *options) -> the sets that the command prepares from a tiny synthetic corpus, by name."""

    def prepare(corpus, *options):
        argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path), *options]
        assert main(["prepare", corpus, *argv, "--output_dir", str(tmp_path / "data")]) == 0
        return {path.name: read_data_dir(path) for path in (tmp_path / "data").iterdir()}

    return prepare


@pytest.mark.parametrize(
    ("corpus", "options", "counts"),
    [
        ("age", [], {"train": 64, "dev": 8, "test": 8}),
        ("iwslt14", [], {"train": 88, "dev": 4, "test": 10}),
        (
            "multi30k",
            ["--pairs", "de-en", "en-fr"],
            {"train": 128, "dev": 16, "test_2016_flickr": 8, "test_2017_flickr": 8},
        ),
        ("parallel_text", ["--pairs", "de-en", "fr-en"], {"train": 128, "dev": 16, "test": 16}),
        ("punctuation", [], {"train": 64, "dev": 8, "test": 8}),
        ("snli", [], {"train": 60, "dev": 8, "test": 8}),
        ("wmt14", [], {"train": 64, "dev": 8, "test": 8}),
        ("wmt17", [], {"train": 396, "dev": 4, "test": 8}),
        ("yelp", [], {"train": 64, "dev": 8, "test": 8}),
    ],
)
def test_the_synthetic_corpus_prepares(prepared, corpus, options, counts):
    assert {name: len(data.text) for name, data in prepared(corpus, *options).items()} == counts


@pytest.mark.parametrize(
    ("corpus", "sets", "classes"),
    [
        ("age", ["train"], {"18-24", "25-34", "35-49", "50-64", "65-xx"}),
        ("snli", ["train", "dev", "test"], {"entailment", "contradiction", "neutral"}),
        ("yelp", ["train"], {"1", "2", "3", "4", "5"}),
    ],
)
def test_every_class_has_texts_of_one_line(prepared, corpus, sets, classes):
    found = prepared(corpus)
    for name in sets:
        assert {*found[name].conditions["utt2domain"].values()} == classes
        assert not any("\n" in text for text in found[name].text.values())
        assert corpus != "snli" or found[name].text.keys() == found[name].src_text.keys()


def test_descriptions_of_talks_are_sentences(prepared):
    assert prepared("iwslt14", "--case", "lower")["train"].text["de-en-iwslt14-train-0000004"].islower()


def test_two_languages_of_tatoeba_are_larger(prepared):
    counts = Counter(prepared("tatoeba")["train"].conditions["utt2lang"].values())
    assert counts == dict.fromkeys(tatoeba.LANGUAGES, 8) | {"de": 16, "fr": 16}


def test_no_language_of_wmt_reads_as_another(prepared):
    train = prepared("wmt_languages")["train"]
    assert Counter(train.conditions["utt2lang"].values()) == dict.fromkeys(wmt_languages.LANGUAGES, 8)
    assert len(set(train.src_text.values())) == 14 * 8 and len(set(train.text.values())) == 8


def test_wikitext103_has_articles_of_tokenised_text(prepared):
    train = prepared("wikitext103")["train"].text
    assert [key for key in train if key.endswith("-0000")] == [f"train-{article:05d}-0000" for article in range(1, 5)]
    assert any(wikitext103.UNKNOWN in text for text in train.values())


def test_the_parts_of_a_sentence_that_sgm_reserves_are_escaped():
    assert sgm_lines("srcset", ["a < b & c", "d"])[3:5] == [
        '<seg id="1">a &lt; b &amp; c</seg>',
        '<seg id="2">d</seg>',
    ]
    assert (sgm_lines("refset", [])[0], sgm_lines("refset", [])[-1]) == ('<refset setid="synthetic">', "</refset>")


def test_lines_end_alike_on_every_system(tmp_path):
    write_lines(tmp_path / "new" / "a", ["ä", "b"])
    assert (tmp_path / "new" / "a").read_bytes() == "ä\nb\n".encode()
