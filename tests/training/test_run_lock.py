"""Two processes never train in one folder."""

import os
import socket

import pytest

from espnet_diverse.errors import TrainingError
from espnet_diverse.training.run_lock import NAME, exclusive


def test_a_second_start_is_refused_with_the_process_of_the_first(tmp_path):
    with exclusive(tmp_path / "exp") as lock:
        lock.sign()
        said = f"exp: process {os.getpid()} on {socket.gethostname()} trains here now; wait until it has ended, stop it"
        for _ in range(20):
            with pytest.raises(TrainingError, match=said), exclusive(tmp_path / "exp"):
                pass
    with exclusive(tmp_path / "exp"):
        assert (tmp_path / "exp" / NAME).read_text() == f"process {os.getpid()} on {socket.gethostname()}\n"


def test_a_lock_that_was_not_signed_leaves_no_file_unless_it_was_there(tmp_path):
    with exclusive(tmp_path):
        assert (tmp_path / NAME).exists()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / NAME).touch()
    with exclusive(tmp_path):
        pass
    assert (tmp_path / NAME).exists()


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with exclusive(tmp_path) as lock:
            lock.sign()
            os.write(writer, b"x")
            os.read(reader, 2)  # waits
            os._exit(0)
    os.close(writer) if os.read(reader, 1) != b"x" else None
    with pytest.raises(TrainingError, match=f"process {child} on"), exclusive(tmp_path):
        pass
    os.kill(child, 9)
    os.waitpid(child, 0)
    with exclusive(tmp_path):
        pass
    for descriptor in (reader, writer):
        os.close(descriptor)
