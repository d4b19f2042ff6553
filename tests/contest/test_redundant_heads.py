"""The redundancy of heads: which runs are analysed, and what is read."""

import json
from pathlib import Path

from espnet_diverse.contest.programs import Ended, Programs
from espnet_diverse.contest.redundant_heads import analyse, read_redundancy
from espnet_diverse.contest.runs import RecipeRun

SHARED = {"config": "{}", "metric": "cer", "sets": ["dev", "test"], "baseline": "old"}
MEASURED = {"lr_normalised": 0.5, "hr": 0.4, "entropy": 2.0}


class Analyses(Programs):
    """Programs that write an analysis, except of runs that are named so."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def run(self, command, folder, log):
        self.calls.append(command)
        place = command[command.index("--output_dir") + 1]
        if "luna" in place:
            return Ended(1)
        Path(place).mkdir(parents=True, exist_ok=True)
        content = {"redundancy": {"encoder": MEASURED, "cross": MEASURED, "mean": MEASURED}}
        (Path(place) / "analysis.json").write_text(json.dumps(content))
        (Path(place) / "analysis.html").touch()
        return Ended(2)  # some utterances were skipped


def run(folder, name):
    return RecipeRun("mine", SHARED, name, 0, {"fragments": name}, folder)


def test_each_run_is_analysed_once_and_failures_are_named(tmp_path, capsys):
    programs, runs = Analyses(), [run(tmp_path, name) for name in ("old", "luna")]
    assert analyse(runs, programs, 7) == ["luna"]
    assert f"mine/luna/0: its heads could not be analysed; see {runs[1].log}" in capsys.readouterr().err
    command = programs.calls[0]
    assert command[command.index("--data_dir") + 1] == str(tmp_path / "data" / "test")
    assert command[command.index("--utterances") + 1] == "7"
    assert read_redundancy(runs[0]) == {"encoder": MEASURED, "cross": MEASURED} and read_redundancy(runs[1]) == {}
    assert analyse(runs, programs, 7) == ["luna"] and len(programs.calls) == 3


def test_an_analysis_that_was_killed_before_its_page_is_repeated(tmp_path):
    programs, old = Analyses(), run(tmp_path, "old")
    analyse([old], programs, 7)
    (tmp_path / programs.calls[0][programs.calls[0].index("--output_dir") + 1] / "analysis.html").unlink()
    assert analyse([old], programs, 7) == [] and len(programs.calls) == 2


def test_nothing_is_analysed_after_a_stop(tmp_path):
    programs = Analyses()
    programs.stop()
    assert analyse([run(tmp_path, "old")], programs, 7) == [] and programs.calls == []
