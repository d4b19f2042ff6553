import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from espnet_diverse.data.files.atomic_files import staged_directory, staged_file, write_parts, write_text
from espnet_diverse.errors import DataError


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
def test_failure_leaves_what_was_there(tmp_path, error):
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
    with pytest.raises(DataError, match="train: is a file, but a directory is to be written here"):
        staged_directory(tmp_path / "train").__enter__()
    assert (tmp_path / "train").read_text() == "mine"


def test_only_one_process_writes_a_directory(tmp_path):
    """As a process of its own, which would delete what this one has written so far."""
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


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_the_working_directory_is_not_replaced(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="would be replaced as a whole"), staged_directory(Path(name)):
        raise AssertionError("is not reached")
    assert not list(tmp_path.iterdir())
