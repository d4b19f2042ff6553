"""Synthetic Yelp: reviews of every class."""

from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import read_data_dir


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path)]
    assert main(["prepare", "yelp", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    sets = {name: read_data_dir(tmp_path / "data" / name) for name in ("train", "dev", "test")}
    assert [len(data.text) for data in sets.values()] == [64, 8, 8]
    assert {*sets["train"].conditions["utt2domain"].values()} == {"1", "2", "3", "4", "5"}
    assert not any("\n" in text for text in sets["train"].text.values())
