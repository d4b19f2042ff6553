"""One process at a time changes a file or writes to a folder."""

import errno
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import get_context

import pytest

from espnet_diverse.data.files import locks
from espnet_diverse.data.files.locks import claim, file_lock, folder_lock, give_up, is_at, lock, sign
from espnet_diverse.errors import DataError

HERE = f"process {os.getpid()} on {socket.gethostname()}"


def test_one_at_a_time_changes_a_file_and_no_lock_stays(tmp_path):
    path = tmp_path / "count"
    path.write_text("0")

    def count():
        for _ in range(50):
            with file_lock(path):
                path.write_text(str(int(path.read_text()) + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "200"
    assert [each.name for each in tmp_path.iterdir()] == ["count"]


def test_who_does_not_wait_is_told_who_holds_the_lock(tmp_path):
    second = file_lock(tmp_path / "file", wait=False)
    with file_lock(tmp_path / "file"), pytest.raises(DataError, match=rf"/file: {HERE} "), second:
        pass
    (tmp_path / "link").symlink_to(tmp_path / "new")
    second = folder_lock(tmp_path / "link")
    with folder_lock(tmp_path / "new"), pytest.raises(DataError, match=rf"/link: {HERE} .*--output_dir"), second:
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"link", "new"} and not list((tmp_path / "new").iterdir())


def test_a_holder_that_has_not_signed_yet_is_told_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_TO_SIGN", 60)  # however late its thread runs

    def sign_soon(descriptor):
        time.sleep(0.1)
        sign(descriptor)

    with lock(tmp_path / ".lock") as descriptor:
        signing = threading.Thread(target=sign_soon, args=(descriptor,))
        signing.start()
        with pytest.raises(DataError, match=f": {HERE} writes here now"), folder_lock(tmp_path):
            pass
        signing.join()


def test_a_file_system_without_locks_is_no_hindrance_and_told(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with file_lock(tmp_path / "file"), folder_lock(tmp_path):
        pass
    assert not list(tmp_path.iterdir()) and caplog.text.count("No locks available") == 2


def test_a_lock_whose_file_was_deleted_meanwhile_is_not_held(tmp_path, monkeypatch):
    """Between the opening of the file and the lock, the process that held it ends and deletes it."""
    first = folder_lock(tmp_path)
    first.__enter__()
    flock = fcntl.flock

    def slow(descriptor, how):
        if not ended:
            ended.append(first.__exit__(None, None, None))
        flock(descriptor, how)

    ended = []
    monkeypatch.setattr(fcntl, "flock", slow)
    with lock(tmp_path / ".lock"):
        assert ended
        with pytest.raises(DataError, match="another process"), folder_lock(tmp_path):
            pass


def test_a_claimed_folder_that_is_removed_meanwhile_is_made_again(tmp_path, monkeypatch):
    removed, opened = [], os.open

    def late(path, *how):
        if not removed:
            removed.append(path.rmdir())
        return opened(path, *how)

    monkeypatch.setattr(os, "open", late)
    give_up(claim(tmp_path / "folder", is_folder=True))
    assert removed and (tmp_path / "folder").is_dir()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_folder_that_cannot_be_opened_is_not_taken_for_another_processs(tmp_path, monkeypatch, code):
    def fail(path, *how):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(OSError, match=os.strerror(code)):
        claim(tmp_path / "folder", is_folder=True)


def test_a_claimed_file_that_is_deleted_meanwhile_is_made_again(tmp_path, monkeypatch):
    path, flock, deleted = tmp_path / "file", fcntl.flock, []

    def slow(descriptor, how):
        if not deleted:
            deleted.append(path.unlink())
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    descriptor = claim(path)
    assert deleted and is_at(descriptor, path) and claim(path) is None
    give_up(descriptor)


def test_descriptors_of_locks_are_closed_after_a_fork(tmp_path, monkeypatch):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(locks, "_held", {descriptor})
    locks._leave_locks()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert locks._held == set()


HOLDER = """
import sys
from pathlib import Path
from espnet_diverse.data.files.locks import folder_lock
with folder_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DataError, match=f"process {holder.pid} on {socket.gethostname()}"), folder_lock(tmp_path):
            pass
        holder.kill()
    with folder_lock(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{HERE}\n"


def test_a_forked_process_does_not_hold_the_lock(tmp_path):
    """It may outlive the one that forked it: for seconds where that was killed."""
    with folder_lock(tmp_path):
        begun = get_context("fork").Event()
        child = get_context("fork").Process(target=lambda: begun.set() or time.sleep(60), daemon=True)
        child.start()
        assert begun.wait(30)
        with pytest.raises(DataError, match=HERE), folder_lock(tmp_path):
            pass
    try:
        with folder_lock(tmp_path):
            assert child.is_alive()
    finally:
        child.kill()
        child.join()
