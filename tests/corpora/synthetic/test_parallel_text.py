from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import read_data_dir


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path), "--pairs", "de-en", "fr-en"]
    assert main(["prepare", "parallel_text", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    assert len(read_data_dir(tmp_path / "data" / "train").text) == 2 * 64
