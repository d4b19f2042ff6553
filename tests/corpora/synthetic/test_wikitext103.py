"""Synthetic WikiText-103: articles of tokenised text."""

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import wikitext103
from espnet_diverse.data.kaldi import read_data_dir


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path)]
    assert main(["prepare", "wikitext103", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    train = read_data_dir(tmp_path / "data" / "train").text
    assert [key for key in train if key.endswith("-0000")] == [f"train-{article:05d}-0000" for article in range(1, 5)]
    assert any(wikitext103.UNKNOWN in text for text in train.values())
