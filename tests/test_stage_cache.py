"""Records of stages: a finished stage is a no-op until its arguments, inputs or outputs change."""

import os
from pathlib import Path

import pytest

from espnet_diverse.stage_cache import StageRecord


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the input `in`, a Kaldi data directory `data` and the output `out`."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("1")
    Path("out").write_text("")
    Path("data").mkdir()
    Path("a.wav").write_bytes(b"audio")
    Path("data/wav.scp").write_text(f"utt {tmp_path}/a.wav\n")
    Path("data/text").write_text("utt hello\n")
    return tmp_path


def record(arguments=("x", "y"), inputs=("in", "data"), outputs=("out",), stage="train"):
    return StageRecord(Path(".stamps"), stage, arguments, map(Path, inputs), map(Path, outputs))


def test_a_stage_runs_until_its_record_is_saved(folder):
    assert record().reason() == "not finished before"
    assert not Path(".stamps").exists()
    record().save(0)
    assert record().reason() is None
    assert record().exit_code() == 0
    assert [path.suffix for path in Path(".stamps").iterdir()] == [".json"]
    record().clear()
    record().clear()
    assert record().reason() == "not finished before"


def test_a_stage_has_finished_with_some_of_its_inputs(folder):
    assert not record(inputs=("in",)).finished()
    record().save(0)
    Path("data/text").write_text("utt hallo\n")
    assert record(inputs=("in",)).finished() and not record().finished()
    assert not record(arguments=("x",), inputs=("in",)).finished()
    Path("out").unlink()
    assert not record(inputs=("in",)).finished()


@pytest.mark.parametrize(
    ("made", "rewritten"),
    [([], None), (["in"], "in"), (["data/text"], "data"), (["inn", "data2/text"], None), (["."], "data")],
)
def test_an_input_that_another_stage_would_write_is_named(folder, made, rewritten):
    assert record().rewritten_input(made) == rewritten


def test_changed_arguments_run_the_stage_again(folder):
    record().save(0)
    assert record(arguments=("x", "z")).reason() == "its arguments changed"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda: Path("in").write_text("2"), "in changed"),
        (lambda: Path("in").unlink(), "in changed"),
        (lambda: Path("data/text").write_text("utt hallo\n"), "data changed"),
        (lambda: Path("data/segments").write_text(""), "data changed"),
        (lambda: Path("a.wav").write_bytes(b"longer audio"), "data changed"),
        (lambda: Path("out").unlink(), "out is missing"),
    ],
)
def test_a_changed_input_or_missing_output_runs_the_stage_again(folder, change, reason):
    record().save(0)
    change()
    assert record().reason() == reason


def test_touching_and_hidden_files_change_nothing(folder):
    record().save(0)
    os.utime("in")
    Path("data/.text.partial").write_text("half")
    assert record().reason() is None


def test_an_input_that_changes_while_the_stage_runs_runs_it_again(folder):
    before = record()
    Path("in").write_text("changed meanwhile")
    before.save(0)
    assert record().reason() == "in changed"


def test_two_commands_with_the_same_outputs_do_not_trust_each_other(folder):
    record(arguments=("a",)).save(0)
    record(arguments=("b",)).save(0)
    assert record(arguments=("a",)).reason() == "its arguments changed"
    assert record(stage="stats").reason() == "not finished before"
    assert record(outputs=("elsewhere",)).reason() == "not finished before"


def test_the_exit_code_is_remembered(folder):
    assert record().exit_code() == 0
    record().save(2)
    assert record().exit_code() == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"arguments": []}', "\x00"])
def test_a_damaged_record_counts_as_missing(folder, content):
    record().save(0)
    record().path.write_text(content)
    assert record().reason() == "not finished before"
    assert record().exit_code() == 0


def test_the_first_missing_output_is_named(folder):
    assert record().missing() is None
    assert record(outputs=("out", "z", "b")).missing() == "b"
