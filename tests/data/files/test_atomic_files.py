import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from references.killed_steps import DONE, in_fork, with_room

from espnet_diverse.data.files.atomic_files import (
    remove_leftovers,
    scratch_directory,
    staged_directory,
    staged_file,
    write_parts,
    write_text,
)
from espnet_diverse.errors import DataError


def test_a_folder_in_place_of_the_file_is_named(tmp_path):
    with pytest.raises(IsADirectoryError) as error:
        write_text(tmp_path, "text")
    assert error.value.filename == str(tmp_path)


def test_writers_of_the_same_file_do_not_disturb_each_other(tmp_path):
    def slow():
        yield "first "
        write_text(tmp_path / "file", "other\n")
        assert (tmp_path / "file").read_text() == "other\n"
        yield "second\n"

    write_parts(tmp_path / "file", slow())
    assert (tmp_path / "file").read_text() == "first second\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_takes_its_place_when_it_is_complete(tmp_path):
    (target := tmp_path / "model.zip").write_text("old")
    with pytest.raises(ZeroDivisionError), staged_file(target) as path:
        path.write_text("half")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    with staged_file(target) as first, staged_file(target) as second:
        first.write_text("first")
        second.write_text("second")
        assert first.suffix == second.suffix == ".zip" and target.read_text() == "old"
    assert target.read_text() == "first"  # the block that ended last
    assert list(tmp_path.iterdir()) == [target]


def test_a_durable_file_is_on_the_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    steps, sync = [], os.fsync
    replace = Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: steps.append("sync") or sync(file))
    monkeypatch.setattr(Path, "replace", lambda path, target: steps.append("replace") or replace(path, target))
    write_text(tmp_path / "record", "all", durable=True)
    write_text(tmp_path / "output", "all")
    assert steps == ["sync", "replace", "sync", "replace"] and (tmp_path / "record").read_text() == "all"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def killed_in_a_block(*blocks):
    """A process that is killed within blocks that have begun, each after it has written something."""

    def write():
        with ExitStack() as stack:
            for block in blocks:
                path = stack.enter_context(block)
                (path / "half" if path.is_dir() else path).write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_fork(write) == -signal.SIGKILL


@pytest.mark.parametrize("writers", [1, 3])
def test_leftovers_of_killed_writers_are_removed_by_the_next_write(tmp_path, writers):
    target = tmp_path / "model.zip"
    killed_in_a_block(*(staged_file(target) for _ in range(writers)))
    assert names(tmp_path) == [f".model.partial.{number}.zip" for number in range(writers)]
    write_text(target, "whole")
    assert target.read_text() == "whole" and names(tmp_path) == ["model.zip"]


def test_files_of_a_living_writer_are_kept(tmp_path):
    target = tmp_path / "file"
    with staged_file(target) as first:
        first.write_text("first")
        killed_in_a_block(staged_file(target))
        assert in_fork(lambda: write_text(target, "second")) == DONE
        assert target.read_text() == "second" and names(tmp_path) == [first.name, "file"]
        remove_leftovers(tmp_path)
    assert target.read_text() == "first" and names(tmp_path) == ["file"]


def test_a_forked_worker_does_not_keep_leftovers_of_its_parent(tmp_path):
    """A worker that reads may outlive the process that was killed."""
    read, write = os.pipe()

    def with_worker():
        with staged_file(tmp_path / "file"):
            if not os.fork():
                os.close(write)
                os.read(read, 1)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_fork(with_worker) == -signal.SIGKILL
    write_text(tmp_path / "file", "whole")
    os.close(write)
    assert names(tmp_path) == ["file"]


def test_a_folder_for_work_is_empty_and_goes(tmp_path):
    killed_in_a_block(scratch_directory(tmp_path / "work"), scratch_directory(tmp_path / "work"))
    assert len(names(tmp_path)) == 2
    with scratch_directory(tmp_path / "work") as first, scratch_directory(tmp_path / "work") as second:
        assert first != second and names(first) == names(second) == []
        (first / "folder").mkdir()
        assert names(tmp_path) == [".work.partial.0", ".work.partial.1"]
    assert names(tmp_path) == []


def test_all_that_killed_processes_have_left_is_removed(tmp_path):
    killed_in_a_block(
        staged_file(tmp_path / "a.json"), scratch_directory(tmp_path / "work"), staged_file(tmp_path / "b")
    )
    for name in (".stats.partial", ".partial", ".a.0.partial", "a.partial.0"):  # of others
        (tmp_path / name).touch()
    (tmp_path / ".a.0123456789ab.partial.json").touch()  # of a former version
    (tmp_path / ".a.partial.0123456789ab.json").touch()  # without locks
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".a.0.partial", ".partial", ".stats.partial", "a.partial.0"]


def test_a_link_in_the_way_is_not_followed(tmp_path):
    (other := tmp_path / "other").write_text("mine")
    (tmp_path / ".file.partial.0").symlink_to(other)
    write_text(tmp_path / "file", "whole")
    assert (tmp_path / "file").read_text() == "whole" and other.read_text() == "mine"


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def no_lock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_lock)
    with pytest.raises(ZeroDivisionError), staged_file(tmp_path / "file") as partial:
        partial.write_text("half")
        raise ZeroDivisionError
    with staged_file(tmp_path / "file") as first, staged_file(tmp_path / "file") as second:
        first.write_text("first"), second.write_text("second")
        remove_leftovers(tmp_path)
    assert (tmp_path / "file").read_text() == "first"
    with scratch_directory(tmp_path / "work") as folder:
        (folder / "file").touch()
    assert names(tmp_path) == ["file"]


def test_the_error_of_a_full_disk_names_the_file(tmp_path, capfd):
    def write(block):
        def act():
            with pytest.raises(OSError) as caught, block as path:
                (path / "file" if path.is_dir() else path).write_bytes(bytes(1000))
            print(caught.value.filename, caught.value.strerror)

        return act

    for name, block in (("a", staged_file), ("b", staged_directory), ("c", scratch_directory)):
        assert with_room(write(block(tmp_path / name)), 100) == DONE
        assert capfd.readouterr().out == f"{tmp_path / name} File too large\n" and names(tmp_path) == []
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "missing" / "file", "text")
    assert caught.value.filename == str(tmp_path / "missing" / "file")


def test_a_long_name_is_no_hindrance(tmp_path):
    write_text(tmp_path / ("你" * 85), "text")
    assert [path.name for path in tmp_path.iterdir()] == ["你" * 85]


def test_staged_directory_replaces_the_old_one(tmp_path):
    target = tmp_path / "data" / "train"
    for content in ("old", "new"):
        with staged_directory(target) as staging:
            (staging / "file").write_text(content)
    assert (target / "file").read_text() == "new"
    assert [entry.name for entry in target.parent.iterdir()] == ["train"]


@pytest.mark.parametrize("error", [DataError, KeyboardInterrupt])
def test_failure_keeps_the_old_directory(tmp_path, error):
    target = tmp_path / "train"
    with staged_directory(target) as staging:
        (staging / "file").write_text("old")
    with pytest.raises(error), staged_directory(target) as staging:
        (staging / "file").write_text("new")
        raise error
    assert (target / "file").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["train"]


def test_the_old_directory_returns_where_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    target, replace = tmp_path / "train", Path.replace
    with staged_directory(target) as staging:
        (staging / "file").write_text("old")

    def fail(path, other):
        if path.name.endswith(".partial"):
            raise KeyboardInterrupt
        return replace(path, other)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(KeyboardInterrupt), staged_directory(target):
        pass
    assert (target / "file").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["train"]


def test_the_old_directory_returns_after_a_kill_between_the_renames(tmp_path):
    target = tmp_path / "train"
    (tmp_path / ".train.previous").mkdir()
    (tmp_path / ".train.previous" / "file").write_text("old")
    with pytest.raises(DataError), staged_directory(target):
        raise DataError
    assert (target / "file").read_text() == "old"


def test_failure_takes_a_new_parent_along(tmp_path):
    with pytest.raises(DataError), staged_directory(tmp_path / "data" / "train"):
        raise DataError
    assert not list(tmp_path.iterdir())


def test_leftovers_of_a_killed_run_are_removed(tmp_path):
    (tmp_path / ".train.partial").mkdir()
    (tmp_path / ".train.partial" / "truncated").touch()
    with staged_directory(tmp_path / "train"):
        pass
    assert not list((tmp_path / "train").iterdir())
    assert [entry.name for entry in tmp_path.iterdir()] == ["train"]


def test_a_link_to_a_directory_on_another_disk_stays(tmp_path):
    link, other = tmp_path / "data" / "train", tmp_path / "disk" / "train"
    link.parent.mkdir()
    other.mkdir(parents=True)
    link.symlink_to(other)
    for content in ("old", "new"):
        with staged_directory(link) as staging:
            (staging / "file").write_text(content)
    assert link.is_symlink() and (other / "file").read_text() == "new"
    assert [path.name for folder in ("data", "disk") for path in (tmp_path / folder).iterdir()] == ["train", "train"]


def test_a_file_in_the_way_is_kept(tmp_path):
    (tmp_path / "train").write_text("mine")
    with pytest.raises(DataError, match="train: is a file, but a directory must be written here"):
        staged_directory(tmp_path / "train").__enter__()
    assert (tmp_path / "train").read_text() == "mine"


def test_only_one_process_writes_a_directory(tmp_path):
    """Another process would delete the files that this one has written so far."""
    target, link = tmp_path / "train", tmp_path / "link"
    (tmp_path / ".train.lock").touch()  # of a process that was killed
    link.symlink_to(target)
    code = "import sys; from pathlib import Path; from espnet_diverse.data.files.atomic_files import staged_directory\n"
    code += "with staged_directory(Path(sys.argv[1])) as staging: (staging / 'file').write_text('other')"

    def other(path):
        return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)

    what = f"train: process {os.getpid()} on {socket.gethostname()} is writing it; "
    what += "wait until it has ended, or choose another path"
    with staged_directory(target) as staging:
        (staging / "file").write_text("own")
        for path in (target, link):
            assert other(path).stderr.endswith(f"DataError: {tmp_path}/{what}\n")
        with pytest.raises(DataError, match=what), staged_directory(target):
            pass
    assert (target / "file").read_text() == "own"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "train"]
    assert other(link).returncode == 0 and (target / "file").read_text() == "other"


@pytest.mark.parametrize("name", [".", "..", "/", "../work", "../work/..", "../../above"])
def test_the_working_directory_is_not_replaced(tmp_path, monkeypatch, name):
    (tmp_path / "above" / "work").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "above" / "work")
    with pytest.raises(DataError, match="would be replaced as a whole"), staged_directory(Path(name)):
        raise AssertionError("is not reached")
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "above", tmp_path / "above" / "work"]
