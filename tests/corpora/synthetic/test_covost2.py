"""Synthetic CoVoST 2: clips in Common Voice's layout."""

import pytest
import soundfile

from espnet_diverse.bin.main import main
from espnet_diverse.corpora.synthetic import covost2 as synthetic
from espnet_diverse.data.kaldi import read_data_dir


@pytest.mark.recipes
def test_the_synthetic_corpus_prepares(tmp_path):
    """Every language of the synthetic corpus is in every set, and a clip of English is translated three times."""
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path), "--nj", "1"]
    assert main(["prepare", "covost2", "--task", "st", *argv, "--output_dir", str(tmp_path / "st")]) == 0
    assert main(["prepare", "covost2", *argv, "--output_dir", str(tmp_path / "asr")]) == 0
    for name, count in synthetic.COUNTS["tiny"].items():
        data = read_data_dir(tmp_path / "asr" / name)
        assert set(data.conditions["utt2lang"].values()) == set(synthetic.LANGUAGES)
        assert len(data.text) == 8 * count
        assert len(read_data_dir(tmp_path / "st" / name).text) == 10 * count
    clip = next((tmp_path / "synthetic_covost2_tiny" / "zh-CN" / "clips").iterdir())
    assert soundfile.info(clip).format == "MP3"
    again = synthetic.make(tmp_path / "again", size="tiny", nj=2)
    for path in (tmp_path / "synthetic_covost2_tiny").rglob("*.*"):
        assert path.read_bytes() == (again / path.relative_to(tmp_path / "synthetic_covost2_tiny")).read_bytes()
