import logging

from references.espnet_models import write_model

from espnet_diverse.bin.main import main
from espnet_diverse.decoding.encoder.quiet import quiet


def test_other_warnings_stay(caplog):
    with caplog.at_level(logging.INFO), quiet():
        logging.warning("from here")
        logging.getLogger("espnet2.legacy.nets.beam_search").warning("from a test")
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert not logging.getLogger().filters and not logging.getLogger("espnet2.legacy.nets.beam_search").filters


def test_no_warning_for_an_utterance(tiny_run, tmp_path, capfd):
    folder, out = write_model(tmp_path / "rnn", "rnn"), tmp_path / "out"
    arguments = ["decode", str(folder), "--data_dir", str(tiny_run.test_dir), "--maxlenratio", "-2"]
    for search in ([], ["--search", "espnet"]):
        capfd.readouterr()
        assert main([*arguments, "--beam_size", "2", "--output_dir", str(out), *search]) == 0
        said = [line for line in capfd.readouterr().err.splitlines() if "WARNING" in line]
        assert len(said) == 1 and "batch" in said[0], said  # which search is taken
    assert "best hypo length: 2 == max output length: 2" in (out / "decode.log").read_text()
