"""Runs of stages: the options of a record, checks before the first stage, and the process around each."""

import logging
from pathlib import Path

import pytest

from espnet_diverse.errors import ConfigError, InterruptedRunError
from espnet_diverse.stage_runs import Stage, recorded, run_stages


class Write(Stage):
    """A stage that writes a file, after `action`."""

    def __init__(self, stage, action=lambda: None):
        self.stage, self.action = stage, action

    def command(self):
        return ["write", f"the {self.stage}"]

    def arguments(self):
        return ["write", self.stage]

    def inputs(self):
        return []

    def outputs(self):
        return [Path(self.stage)]

    def run(self):
        self.action()
        Path(self.stage).touch()
        return 0


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)


def test_a_record_has_the_options_that_are_not_the_default_by_name():
    values = {"set": ("a=1",), "ngpu": 3, "number": 5, "config": "x,y", "init_param": (), "text": [Path("t")]}
    said = ["--config x,y", "--set ['a=1']", f"--text {[Path('t')]}"]
    assert recorded(values, {"number": 5, "init_param": [], "set": []}) == said


def test_a_finished_stage_is_skipped(capsys):
    assert run_stages([Write("a"), Write("b")], Path("stamps")) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["[a] write 'the a'", "[a] done in 0 s"]
    assert run_stages([Write("a"), Write("b")], Path("stamps")) == 0
    assert capsys.readouterr().out == "[a] up to date\n[b] up to date\n"


def test_all_stages_are_checked_with_those_before_them():
    def refuse(before):
        raise ConfigError(f"after {[stage.stage for stage in before]}")

    second = Write("b")
    for check in ("check_options", "check_machine"):
        setattr(second, check, refuse)
        with pytest.raises(ConfigError, match=r"stage 'b': after \['a'\]"):
            run_stages([Write("a"), second], Path("stamps"))
        assert not Path("a").exists()
        setattr(second, check, None)
    assert run_stages([Write("a"), second], Path("stamps")) == 0
    second.check_options = refuse  # finished, so it is not checked
    assert run_stages([Write("a"), second], Path("stamps")) == 0


def test_an_error_is_raised_after_its_exit_code_is_told(capsys):
    def stop():
        raise InterruptedRunError("stopped")

    with pytest.raises(InterruptedRunError, match="^stopped$"):
        run_stages([Write("a", stop), Write("b")], Path("stamps"))
    assert capsys.readouterr().out.endswith("[a] failed after 0 s with exit code 75\n")
    assert not Path("b").exists() and not Path("stamps").exists()


def test_each_stage_leaves_the_process_as_it_was(monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    formats = []
    stage = Write("a", lambda: formats.extend(handler.formatter._fmt for handler in root.handlers))
    assert run_stages([stage], Path("stamps")) == 0
    assert formats == ["espnet-diverse a: %(message)s"] and root.handlers == []
