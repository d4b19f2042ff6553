"""Two processes never train in one folder, nor two threads in one process."""

import os
import socket
import threading

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.data.files.locks import NAME
from espnet_diverse.errors import TrainingError
from espnet_diverse.training import stages
from espnet_diverse.training.checkpoints.run_lock import run_lock


def test_a_second_start_is_refused_with_the_process_of_the_first(tmp_path):
    with run_lock(tmp_path / "exp") as sign:
        sign()
        said = f"exp: process {os.getpid()} on {socket.gethostname()} trains here now; wait until it has ended, stop it"
        for _ in range(20):
            with pytest.raises(TrainingError, match=said), run_lock(tmp_path / "exp"):
                pass
    with run_lock(tmp_path / "exp"):
        assert (tmp_path / "exp" / NAME).read_text() == f"process {os.getpid()} on {socket.gethostname()}\n"


def test_a_lock_that_was_not_signed_leaves_no_file_unless_it_was_there(tmp_path):
    with run_lock(tmp_path):
        assert (tmp_path / NAME).exists()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / NAME).touch()
    with run_lock(tmp_path):
        pass
    assert (tmp_path / NAME).exists()


def test_a_second_training_in_a_thread_is_refused_at_once_and_the_first_continues(
    tiny_run, tmp_path, monkeypatch, capfd
):
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
