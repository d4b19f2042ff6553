"""Synthetic parallel text, and what all synthetic text corpora share."""

import pytest
from references.data_fixtures import digests

from espnet_diverse.bin.main import main
from espnet_diverse.corpora.synthetic import load_generator
from espnet_diverse.corpora.synthetic.parallel_text import sgm_lines, write_lines
from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.errors import DataError


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path), "--pairs", "de-en", "fr-en"]
    assert main(["prepare", "parallel_text", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    assert len(read_data_dir(tmp_path / "data" / "train").text) == 2 * 64


@pytest.mark.parametrize("name", ["iwslt14", "multi30k", "parallel_text", "tatoeba", "wikitext103", "wmt14", "wmt17"])
def test_the_seed_decides_every_byte(tmp_path, name):
    corpus = load_generator(name)
    first = digests(corpus.make(tmp_path / "a", size="tiny"))
    assert digests(corpus.make(tmp_path / "b", size="tiny", nj=1)) == first
    assert digests(corpus.make(tmp_path / "b", size="tiny", seed=1)) != first
    with pytest.raises(DataError, match="^unknown size 'huge' of a synthetic corpus; choose one of tiny demo$"):
        corpus.make(tmp_path / "c", size="huge")


def test_the_parts_of_a_sentence_that_sgm_reserves_are_escaped():
    assert sgm_lines("srcset", ["a < b & c", "d"])[3:5] == [
        '<seg id="1">a &lt; b &amp; c</seg>',
        '<seg id="2">d</seg>',
    ]
    assert (sgm_lines("refset", [])[0], sgm_lines("refset", [])[-1]) == ('<refset setid="synthetic">', "</refset>")


def test_lines_end_alike_on_every_system(tmp_path):
    write_lines(tmp_path / "new" / "a", ["ä", "b"])
    assert (tmp_path / "new" / "a").read_bytes() == "ä\nb\n".encode()
