"""Synthetic IWSLT14: talks and test sets in the official layout."""

from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import read_data_dir


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path), "--case", "lower"]
    assert main(["prepare", "iwslt14", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    counts = {path.name: len(read_data_dir(path).text) for path in (tmp_path / "data").iterdir()}
    assert counts == {"train": 88, "dev": 4, "test": 10}
    assert read_data_dir(tmp_path / "data" / "train").text["de-en-iwslt14-train-0000004"].islower()
