"""Synthetic WMT: fourteen languages, none of which reads as another."""

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import wmt_languages
from espnet_diverse.data.kaldi import read_data_dir


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path)]
    assert main(["prepare", "wmt_languages", *argv, "--output_dir", str(tmp_path / "data")]) == 0
    train = read_data_dir(tmp_path / "data" / "train")
    languages = list(train.conditions["utt2lang"].values())
    assert {name: languages.count(name) for name in set(languages)} == dict.fromkeys(wmt_languages.LANGUAGES, 8)
    assert len(set(train.src_text.values())) == 14 * 8 and len(set(train.text.values())) == 8
