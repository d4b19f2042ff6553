"""Two processes never train in one folder."""

import fcntl
import os
import socket
import subprocess
import sys
import time
from multiprocessing import get_context

import pytest

from espnet_diverse.errors import TrainingError
from espnet_diverse.training.run_lock import NAME, run_lock


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


def test_a_lock_whose_file_was_deleted_meanwhile_is_not_held(tmp_path, monkeypatch):
    """Between the opening of the file and the lock, the process that held it ends and deletes it."""
    first = run_lock(tmp_path)
    first.__enter__()
    flock = fcntl.flock

    def slow(descriptor, how):
        if not ended:
            ended.append(first.__exit__(None, None, None))
        flock(descriptor, how)

    ended = []
    monkeypatch.setattr(fcntl, "flock", slow)
    with run_lock(tmp_path):
        assert ended
        with pytest.raises(TrainingError, match="another process trains here now"), run_lock(tmp_path):
            pass


HOLDER = """
import sys
from pathlib import Path
from espnet_diverse.training.run_lock import run_lock
with run_lock(Path(sys.argv[1])) as lock:
    lock.sign()
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TrainingError, match=f"process {holder.pid} on"), run_lock(tmp_path):
            pass
        holder.kill()
    with run_lock(tmp_path):
        pass


def test_a_process_that_reads_data_does_not_hold_the_lock(tmp_path):
    """It may outlive the one that trains: for seconds where that was killed."""
    with run_lock(tmp_path) as lock:
        lock.sign()
        begun = get_context("fork").Event()
        reader = get_context("fork").Process(target=lambda: begun.set() or time.sleep(60), daemon=True)
        reader.start()
        assert begun.wait(30)
        with pytest.raises(TrainingError, match="trains here now"), run_lock(tmp_path):
            pass
    try:
        with run_lock(tmp_path):
            assert reader.is_alive()
    finally:
        reader.kill()
        reader.join()
