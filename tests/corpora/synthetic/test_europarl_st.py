"""Synthetic Europarl-ST: all directions between six languages."""

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection, europarl_st
from espnet_diverse.corpora.synthetic import europarl_st as synthetic
from espnet_diverse.data.kaldi import read_data_dir

ST = Selection(task="st")


def test_the_synthetic_corpus_prepares(tmp_path):
    """Six languages and thirty directions, and no speech is in two sets."""
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path), "--nj", "1"]
    assert main(["prepare", "europarl_st", *argv, "--output_dir", str(tmp_path / "asr")]) == 0
    for name, count in synthetic.COUNTS["tiny"].items():
        data = read_data_dir(tmp_path / "asr" / name)
        assert set(data.conditions["utt2lang"].values()) == set(synthetic.LANGUAGES)
        assert len(data.text) == 6 * count
    sets = europarl_st.prepare(tmp_path / "synthetic_europarl_st_tiny", ST)
    assert len(sets["test"].text) == 30 * synthetic.COUNTS["tiny"]["test"]
    speeches = [set(data.wav_scp) for data in sets.values()]
    assert len(set.union(*speeches)) == sum(map(len, speeches))
