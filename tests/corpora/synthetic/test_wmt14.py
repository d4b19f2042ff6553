"""Synthetic WMT14: training parts and test sets."""

from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import read_data_dir


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path)]
    assert main(["prepare", "wmt14", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    counts = {path.name: len(read_data_dir(path).text) for path in (tmp_path / "data").iterdir()}
    assert counts == {"train": 64, "dev": 8, "test": 8}
