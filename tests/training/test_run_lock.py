"""Two processes never train in one folder."""

import os
import socket

import pytest

from espnet_diverse.data.locks import NAME
from espnet_diverse.errors import TrainingError
from espnet_diverse.training.run_lock import run_lock


def test_a_second_start_is_refused_with_the_process_of_the_first(tmp_path):
    with run_lock(tmp_path / "exp") as lock:
        lock.sign()
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
