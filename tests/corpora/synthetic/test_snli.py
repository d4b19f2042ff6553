"""Synthetic SNLI: pairs, of every class in every set."""

from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import read_data_dir


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path)]
    assert main(["prepare", "snli", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    sets = {name: read_data_dir(tmp_path / "data" / name) for name in ("train", "dev", "test")}
    assert [len(data.text) for data in sets.values()] == [60, 8, 8]
    for data in sets.values():
        assert data.text.keys() == data.src_text.keys()
        assert {*data.conditions["utt2domain"].values()} == {"entailment", "contradiction", "neutral"}
