"""Synthetic Fish Fillets: two spoken languages, levels whose names draw them into the sets of their sentences."""

import soundfile

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection, fillets
from espnet_diverse.corpora.synthetic import fillets as synthetic
from espnet_diverse.data.kaldi import read_data_dir

DIRECTIONS = {"de-en", "de-es", "de-fr", "es-en", "es-de", "es-fr"}


def test_the_synthetic_corpus_prepares(tmp_path):
    argv = ["--corpus", "synthetic", "--size", "tiny", "--download_dir", str(tmp_path), "--nj", "1"]
    assert main(["prepare", "fillets", *argv, "--output_dir", str(tmp_path / "asr")]) == 0
    for name, count in synthetic.COUNTS["tiny"].items():
        data = read_data_dir(tmp_path / "asr" / name)
        assert sorted(data.conditions["utt2lang"].values()) == count * ["de"] + count * ["es"]
    sets = fillets.prepare(tmp_path / "synthetic_fillets_tiny", Selection(task="st", transcripts="written"))
    for name, data in sets.items():
        directions = [utterance[:5] for utterance in data.text]
        assert {each: directions.count(each) for each in directions} == dict.fromkeys(
            DIRECTIONS, synthetic.COUNTS["tiny"][name]
        )
    spoken, written = sets["test"].src_text, sets["test"].text
    assert {spoken[f"de-en-{name}"] == written[f"es-de-{name}"] for name in (u[6:] for u in spoken)} == {True}
    assert all(1 < soundfile.info(path).duration < 8 for path in sets["test"].wav_scp.values())
