"""Trainings in two threads of a process."""

import threading

from espnet_diverse.bin.main import main
from espnet_diverse.training import stages


def test_a_second_training_in_a_thread_is_refused_at_once_and_the_first_goes_on(tiny_run, tmp_path, monkeypatch, capfd):
    second, codes = tmp_path / "second", []

    def train(output_dir):
        paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(output_dir)]
        return main(["train", *tiny_run.config, *tiny_run.data(), *paths, "--set=max_epoch=1"])

    own_run = stages.run

    def while_the_first_trains(*args):
        thread = threading.Thread(target=lambda: codes.append(train(second)))
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
        own_run(*args)

    monkeypatch.setattr(stages, "run", while_the_first_trains)
    assert train(tmp_path / "first") == 0
    assert codes == [1] and not second.exists() and (tmp_path / "first" / "1epoch.pth").exists()
    said = [line for line in capfd.readouterr().err.splitlines() if "another thread of this process trains" in line]
    assert len(said) == 1 and said[0].startswith("espnet-diverse train: error: another thread")
    monkeypatch.undo()
    assert train(second) == 0
