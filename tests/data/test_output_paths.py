"""Directories that are not replaced: originals and inputs."""

import json

import pytest

from espnet_diverse.data.files.atomic_files import staged_file
from espnet_diverse.data.kaldi import DataDir, write_data_dir
from espnet_diverse.data.output_paths import (
    MARK,
    check_no_data,
    check_outputs,
    check_prepared,
    check_target,
    check_unread,
    mark_prepared,
)
from espnet_diverse.errors import DataError


@pytest.fixture
def target(tmp_path):
    """A data directory that `prepare` has written."""
    write_data_dir(DataDir(text={"a": "one"}), tmp_path / "train")
    mark_prepared(tmp_path / "train")
    return tmp_path / "train"


def test_the_mark_lists_the_written_files(tmp_path, target):
    assert json.loads((target / MARK).read_text()) == {"files": ["text"]}
    check_prepared(target)
    check_prepared(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_prepared(tmp_path / "empty")


@pytest.mark.parametrize("mark", [None, "{", "[]", '{"files": 3}'])
def test_without_a_mark_a_directory_is_not_ours(target, mark):
    (target / MARK).unlink() if mark is None else (target / MARK).write_text(mark)
    what = (
        r"train: exists, and nothing shows that espnet-diverse has written it .*; move it away or choose another path$"
    )
    with pytest.raises(DataError, match=what):
        check_prepared(target)


def test_files_of_others_are_not_deleted(target):
    (target / "feats.scp").write_text("a raw.ark:3\n")
    what = "train: has feats.scp, which espnet-diverse has not written; move it away or choose another path$"
    with pytest.raises(DataError, match=what):
        check_prepared(target)


def test_an_unmarked_directory_is_recognised_by_dropped_tsv(target):
    (target / MARK).unlink()
    (target / "wav.1.ark").touch()
    (target / "dropped.tsv").write_text("utterance\treason\nb\tlonger than 20 s\n")
    check_prepared(target)
    (target / "notes.md").touch()
    with pytest.raises(DataError, match="train: has notes.md, which espnet-diverse has not written"):
        check_prepared(target)
    (target / "dropped.tsv").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match="nothing shows that espnet-diverse has written it"):
        check_prepared(target)


def test_input_directories_are_not_replaced(tmp_path, target):
    check_unread(tmp_path / "test", [target, tmp_path])
    check_unread(target, [tmp_path, tmp_path / "absent"])
    (tmp_path / "link").symlink_to(target)
    for path in (target, tmp_path / "link", tmp_path / "link" / ".." / "train"):
        with pytest.raises(DataError, match=f"^{path}: is the directory to read, .*train; choose another path$"):
            check_unread(path, [target])
    with pytest.raises(DataError, match="train: contains .*text, which is read; choose another path$"):
        check_unread(target, [tmp_path / "link" / "text"])


@pytest.mark.parametrize("path", ["train/a.wav", "other/../train/a.wav", "link/a.wav", "alias.wav", "link/wav.1.ark:7"])
def test_audio_in_the_directory_is_found_by_any_name(tmp_path, target, path):
    (target / "a.wav").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "alias.wav").symlink_to(target / "a.wav")
    for output_dir in (tmp_path, tmp_path / "other" / ".."):
        with pytest.raises(DataError, match="train: would be replaced, but contains the audio of a; choose another"):
            check_target({"train": DataDir({"a": str(tmp_path / path)}, {"a": "one"})}, output_dir)
    for elsewhere in (tmp_path / "other" / "a.wav", tmp_path / ("a" * 300)):  # no file has the second name
        check_target({"train": DataDir({"a": str(elsewhere)}, {"a": "one"})}, tmp_path)


def test_a_link_to_audio_elsewhere_is_not_in_the_directory(tmp_path, target):
    (tmp_path / "other.wav").touch()
    (tmp_path / "alias.wav").symlink_to(tmp_path / "other.wav")
    check_target({"train": DataDir({"a": str(tmp_path / "alias.wav")}, {"a": "one"})}, tmp_path)


def test_a_directory_of_something_else_is_not_replaced(tmp_path):
    sets = {"train": DataDir(text={"a": "one"})}
    (tmp_path / "train").mkdir()
    check_target(sets, tmp_path)  # empty
    (tmp_path / "train" / "notes.md").touch()
    with pytest.raises(DataError, match="train: exists and is no data directory; move it away or choose another path$"):
        check_target(sets, tmp_path)
    (tmp_path / "train" / "text").touch()
    check_target(sets, tmp_path)


def test_files_that_are_read_are_not_written(tmp_path, target):
    (tmp_path / "link").symlink_to(target)
    check_outputs([tmp_path / "text", target.parent / "other" / "text"], [target, target / "text", tmp_path / "gone"])
    for output in (target / "new", tmp_path / "link" / "new", tmp_path / "link"):
        with pytest.raises(DataError, match=f"^{tmp_path}/(train|link): is the directory to read, {target}; choose an"):
            check_outputs([output], [target])
    (tmp_path / "alias").symlink_to(target / "text")
    for output in (target / "text", tmp_path / "link" / "text", tmp_path / "alias"):
        with pytest.raises(DataError, match=f"^{output}: is the file to read, {target}/text; choose another path$"):
            check_outputs([output], [target / "text"])
    with pytest.raises(DataError, match=f"is the file to read, {tmp_path}/alias; choose another path$"):
        check_outputs([target / "text"], [tmp_path / "alias"])


def test_results_are_known_by_their_scores(tmp_path):
    check_no_data(tmp_path / "new")
    (tmp_path / "text").touch()
    for name in ("score", "failures.json"):
        with pytest.raises(DataError, match=f"^{tmp_path}: has text, so it is a data directory, whose text would be"):
            check_no_data(tmp_path)
        (tmp_path / name).touch()
        check_no_data(tmp_path)
        (tmp_path / name).unlink()
    for name in ("score", "src_text"):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match="has src_text, so it is a data directory"):
        check_no_data(tmp_path)


def test_a_mark_is_one_of_a_command(tmp_path):
    (tmp_path / "config.yaml").touch()
    mark_prepared(tmp_path, "adopt")
    check_prepared(tmp_path, "adopt")
    with pytest.raises(DataError, match="exists, and nothing shows that espnet-diverse has written it"):
        check_prepared(tmp_path)
    (tmp_path / "train.log").touch()
    with pytest.raises(DataError, match="has train.log, which `adopt` has not written"):
        check_prepared(tmp_path, "adopt")


def test_a_file_is_not_replaced(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(DataError, match="mine: is a file, but a directory must be written here"):
        check_prepared(tmp_path / "mine")


def test_a_mark_that_was_half_written_is_nothing_of_others(tmp_path):
    with staged_file(tmp_path / MARK) as partial:
        partial.write_text("{")
        check_prepared(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [partial.name]
        (tmp_path / ".git").mkdir()
        with pytest.raises(DataError, match="nothing shows"):
            check_prepared(tmp_path)


def test_an_output_in_a_loop_of_symlinks_is_refused(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(tmp_path / "back")
    (tmp_path / "back").symlink_to(loop)
    for target in (loop, loop / "set"):
        for check in (lambda path: check_outputs([path], []), lambda path: check_unread(path, [])):
            with pytest.raises(DataError, match=f"{target}: is in a loop of symlinks; choose another path"):
                check(target)
    with pytest.raises(DataError, match="loop/train: is in a loop of symlinks"):
        check_target({"train": DataDir()}, loop)
