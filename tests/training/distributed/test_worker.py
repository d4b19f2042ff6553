"""One process of several: what it writes, and what it says where."""

import json
import multiprocessing

import pytest

from espnet_diverse.data.faults import Fault, FaultsError
from espnet_diverse.errors import DataError
from espnet_diverse.option_checks import OptionError, UnknownOptionError
from espnet_diverse.training import espnet_command
from espnet_diverse.training.distributed import elastic
from espnet_diverse.training.distributed.worker import work


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A configuration of process 1, which writes into `run`; its errors go to `errors`."""
    for name in ("errors", "run"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("RANK", "1")
    return {"ngpu": 0, "output_dir": str(tmp_path / "run")}


def fail_with(monkeypatch, error):
    def run(task, config, group):
        print("a line of the table")
        raise error

    monkeypatch.setattr(espnet_command, "run", run)


def test_an_error_of_the_user_is_handed_to_the_parent(config, tmp_path, monkeypatch, capsys):
    fail_with(monkeypatch, DataError("no audio"))
    with pytest.raises(SystemExit, match="1"):
        work("mt", config, str(tmp_path / "errors"), tmp_path / "processes")
    assert json.loads((tmp_path / "errors" / "1").read_text()) == {"type": "DataError", "message": "no audio"}
    assert capsys.readouterr() == ("", "")
    with pytest.raises(SystemExit, match="1"):  # a restart does not even begin
        work("mt", config, str(tmp_path / "errors"), tmp_path / "processes")
    assert (tmp_path / "run" / "train.process1.log").read_text().count("a line of the table") == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OptionError("temperature", "temperature 0 is not allowed"), "ConfigError"),
        (UnknownOptionError("sampling", "tempo", ["by"]), "ConfigError"),
        (FaultsError([Fault("text", 1, "no text")]), "DataError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_error_of_a_part_is_raised_again_by_its_general_type(error, kind, config, tmp_path, monkeypatch):
    fail_with(monkeypatch, error)
    with pytest.raises(SystemExit, match="1"):
        work("mt", config, str(tmp_path / "errors"), tmp_path / "processes")
    said = elastic._said(tmp_path / "errors")
    assert (type(said).__name__, str(said)) == (kind, str(error))


def test_other_errors_stand_in_the_log(config, tmp_path, monkeypatch, capsys):
    fail_with(monkeypatch, RuntimeError("Connection reset by peer"))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    with pytest.raises(SystemExit, match="1"):
        work("mt", config, str(tmp_path / "errors"), tmp_path / "processes")
    assert not any((tmp_path / "errors").iterdir()) and capsys.readouterr() == ("", "")
    log = (tmp_path / "run" / "train.process1.log").read_text()
    assert "process 1 failed" in log and "RuntimeError: Connection reset by peer" in log and "(restart 2)" in log


def test_workers_that_read_data_are_forks(config, tmp_path, monkeypatch):
    before, found = multiprocessing.get_start_method(), []
    monkeypatch.setattr(
        espnet_command, "run", lambda task, config, group: found.append(multiprocessing.get_start_method())
    )
    multiprocessing.set_start_method("spawn", force=True)  # as in a process that the launch has started
    try:
        work("mt", config, str(tmp_path / "errors"), tmp_path / "processes")
    finally:
        multiprocessing.set_start_method(before, force=True)
    assert found == ["fork"]


def test_process_0_writes_on_the_console(config, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(espnet_command, "run", lambda task, config, group: print("a line of the table"))
    work("mt", config, str(tmp_path / "errors"), tmp_path / "processes")
    assert capsys.readouterr().out == "a line of the table\n" and (tmp_path / "run" / "train.log").exists()
