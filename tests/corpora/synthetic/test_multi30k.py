"""Synthetic Multi30k: compressed texts in three languages."""

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import load_corpus, multi30k
from espnet_diverse.data.kaldi import read_data_dir


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path), "--pairs", "de-en", "en-fr"]
    assert main(["prepare", "multi30k", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    counts = {path.name: len(read_data_dir(path).text) for path in (tmp_path / "data").iterdir()}
    assert counts == {"train": 128, "dev": 16, "test_2016_flickr": 8, "test_2017_flickr": 8}
    assert load_corpus("multi30k") is multi30k
