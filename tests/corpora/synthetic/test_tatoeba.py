"""Synthetic Tatoeba: six languages, two of them larger."""

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import tatoeba
from espnet_diverse.data.kaldi import read_data_dir


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path)]
    assert main(["prepare", "tatoeba", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    train = read_data_dir(tmp_path / "data" / "train")
    languages = list(train.conditions["utt2lang"].values())
    assert {name: languages.count(name) for name in set(languages)} == dict.fromkeys(tatoeba.LANGUAGES, 8) | {
        "de": 16,
        "fr": 16,
    }
