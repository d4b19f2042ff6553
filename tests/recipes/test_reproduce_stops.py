"""Early ends of a walk through the table of runs: at its time, by a signal, or killed.

The recipe is a shell that starts a program, as those of egs do; the shell ends at once on SIGTERM, and the program
saves first.
"""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

EGS = Path(__file__).resolve().parents[2] / "egs"
RUN_SH = """#!/usr/bin/env bash
set -euo pipefail
trap true EXIT
PYTHON program "$@"
"""
PROGRAM = """
import json, os, signal, sys, time
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
step = "compare" if "--stage" in given else "prepare" if "--stop_stage" in given else "train"
folder = os.path.join("exp", given["--tag"], "decode", "test")
saved = os.path.join("exp", given["--tag"], "saved_" + step)

def note(*words):
    with open("notes", "a") as file:
        print(given["--tag"], *words, file=file)

def stop(number, _):
    note(step, signal.Signals(number).name)
    time.sleep(1)
    open(saved, "w").close()
    note(step, "saved")
    sys.exit(75)

signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
os.makedirs(folder, exist_ok=True)
open(os.path.join("exp", "pid"), "w").write(str(os.getpid()))
note(step, "goes on" if os.path.exists(saved) else "begins")
seconds = 0 if os.path.exists(saved) else json.loads(os.environ["TAKES"]).get(step, 0)
ends = time.monotonic() + seconds
while time.monotonic() < ends:
    time.sleep(0.05)
open(os.path.join(folder, "text"), "w").close()
overall = {"score": 30} | ({"baseline": {"p_value": 0.01}} if step == "compare" else {})
with open(os.path.join(folder, "score.json"), "w") as file:
    json.dump({"metrics": {"bleu": {"overall": overall}}}, file)
"""
TABLE = {
    **{"recipe": "some/mt1", "corpus": "synthetic", "config": "{}", "metric": "bleu"},
    **{"sets": ["test"], "baseline": "old", "seeds": [0]},
    "runs": {"old": {"fragments": "a"}, "new": {"fragments": "b"}},
}


class Walk:
    """A folder with a copy of reproduce.py and the stand-in, and the calls of the copy."""

    def __init__(self, folder: Path):
        self.recipe = folder / "some" / "mt1"
        self.recipe.mkdir(parents=True)
        for name in ("reproduce.py", "job_pool.py", "run_table.py"):
            shutil.copy(EGS / name, folder)
        (folder / "reproduce.yaml").write_text(yaml.safe_dump({"mine": TABLE}, sort_keys=False))
        (self.recipe / "run.sh").write_text(RUN_SH.replace("PYTHON", sys.executable))
        (self.recipe / "run.sh").chmod(0o755)
        (self.recipe / "program").write_text(PROGRAM)
        self.command = [sys.executable, str(folder / "reproduce.py"), "run"]
        self.results = folder / "reproduce.tsv"

    def start(self, *options: str, takes: dict[str, float] | None = None, **settings) -> subprocess.Popen:
        environment = {**os.environ, "TAKES": json.dumps(takes or {})}
        return subprocess.Popen(
            [*self.command, *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **settings,
        )

    def call(self, *options: str, takes: dict[str, float] | None = None) -> tuple[int, str]:
        process = self.start(*options, takes=takes)
        said, _ = process.communicate()
        return process.returncode, said

    def notes(self) -> list[str]:
        notes = self.recipe / "notes"
        return notes.read_text().replace("mine_", "").replace("_seed0", "").splitlines() if notes.is_file() else []

    def wait_for(self, note: str) -> None:
        ended = time.monotonic() + 60
        while note not in self.notes():
            assert time.monotonic() < ended, self.notes()
            time.sleep(0.05)

    def program(self) -> int:
        """Process of the program that was started last."""
        return int((self.recipe / "exp" / "pid").read_text())


@pytest.fixture
def walk(tmp_path):
    return Walk(tmp_path)


def is_alive(process: int) -> bool:
    """Whether a process is there and not only its exit status, which nobody may have taken yet."""
    status = Path(f"/proc/{process}/stat")
    return status.is_file() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("step", ["prepare", "train"])
def test_nothing_is_started_after_the_time_and_what_was_begun_goes_on(walk, step):
    started = time.monotonic()
    returned, said = walk.call("--minutes", "0.03", takes={step: 60})
    assert (returned, said.splitlines()[-1]) == (75, "0 runs done, 2 left")
    assert time.monotonic() - started < 40 and not is_alive(walk.program())
    before = ["old prepare begins"] if step == "train" else []
    assert walk.notes() == [*before, f"old {step} begins", f"old {step} SIGTERM", f"old {step} saved"]
    returned, said = walk.call(takes={step: 0.1})
    assert (returned, said.splitlines()[-1]) == (0, "2 runs done, 0 left")
    assert f"old {step} goes on" in walk.notes()


def test_the_time_holds_for_the_comparison_with_the_baseline(walk):
    assert walk.call("--only", "*/old/*")[0] == 0
    started = time.monotonic()
    returned, said = walk.call("--minutes", "0.05", takes={"compare": 60})
    assert (returned, said.splitlines()[-1]) == (75, "0 runs done, 1 left")
    assert time.monotonic() - started < 40 and walk.notes()[-1] == "new compare saved"
    assert "new" not in walk.results.read_text()
    assert walk.call()[0] == 0
    assert walk.results.read_text().splitlines()[-1].split("\t")[1:7] == ["new", "0", "test", "bleu", "30.00", "0.010"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_is_handed_on_and_waits_for_what_is_saved(walk, number, code):
    process = walk.start("--jobs", "2", takes={"train": 60})
    walk.wait_for("old train begins")
    walk.wait_for("new train begins")
    process.send_signal(number)
    assert process.wait(30) == code
    assert process.stdout.read().endswith("0 runs done, 2 left\n")
    name = signal.Signals(number).name
    assert sorted(walk.notes()[4:]) == sorted(
        f"{run} train {what}" for run in ("new", "old") for what in (name, "saved")
    )
    assert not is_alive(walk.program())
    assert walk.call("--only", "*/old/*", takes={"train": 60})[0] == 0 and "old train goes on" in walk.notes()


def test_a_signal_after_the_time_is_handed_on_too(walk):
    process = walk.start("--only", "*/old/*", "--minutes", "0.05", takes={"train": 60})
    walk.wait_for("old train SIGTERM")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert walk.notes()[1:] == [f"old train {what}" for what in ("begins", "SIGTERM", "SIGINT", "saved")]


def test_a_signal_during_the_preparation_is_handed_on(walk):
    process = walk.start("--jobs", "2", takes={"prepare": 60})
    walk.wait_for("old prepare begins")
    process.terminate()
    assert process.wait(30) == 75
    assert walk.notes() == ["old prepare begins", "old prepare SIGTERM", "old prepare saved"]


def test_an_interrupt_that_a_shell_ignores_for_its_background_stays_ignored(walk):
    process = walk.start(
        "--only", "*/old/*", takes={"train": 1}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    )
    walk.wait_for("old train begins")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0


def test_a_run_that_outlives_a_killed_walk_is_not_begun_a_second_time(walk):
    process = walk.start("--only", "*/old/*", takes={"train": 60})
    walk.wait_for("old train begins")
    process.kill()
    process.wait()
    alive = walk.program()
    try:
        os.kill(os.getpgid(alive), signal.SIGTERM)  # the shell, as it may be when the others are left
        returned, said = walk.call("--only", "*/old/*")
        assert is_alive(alive)
        assert returned == 75 and "mine/old/0: left out, as it still runs from an earlier call; its log is " in said
        assert walk.notes() == ["old prepare begins", "old train begins"]
    finally:
        os.kill(alive, signal.SIGKILL)
    assert walk.call("--only", "*/old/*")[0] == 0


def test_a_failing_comparison_fails_the_run(walk):
    assert walk.call("--only", "*/old/*")[0] == 0
    broken = (walk.recipe / "program").read_text().replace("ends =", "1 / (step != 'compare')\nends =")
    (walk.recipe / "program").write_text(broken)
    returned, said = walk.call()
    assert returned == 1 and "error: mine/new/0 failed; its log is " in said
    assert "new" not in walk.results.read_text()


def test_a_program_that_does_not_stop_is_killed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EGS)
    job_pool = importlib.import_module("job_pool")
    monkeypatch.setattr(job_pool, "GRACE", 1)
    started = tmp_path / "started"
    text = f"import signal, time, pathlib; signal.signal(15, signal.SIG_IGN); pathlib.Path({str(started)!r}).touch()"
    commands = iter([[sys.executable, "-c", f"{text}; time.sleep(60)"]])
    job = job_pool.Job("deaf", tmp_path, tmp_path / "log", commands)
    pool = job_pool.Pool(1)
    monkeypatch.setattr(pool, "_over", started.is_file)
    pool.work([job])
    assert (job.state, job.process.returncode) == ("stopped", -signal.SIGKILL)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_run_that_another_call_has_made_meanwhile_is_not_scored_twice(walk):
    slow = walk.start(takes={"train": 5})
    walk.wait_for("old train begins")
    assert walk.call("--only", "*/new/*")[0] == 0
    assert slow.wait(60) == 0
    rows = [line.split("\t")[1] for line in walk.results.read_text().splitlines()[1:]]
    assert rows == ["new", "old"] and sum("new train" in line for line in walk.notes()) == 1


def change(walk, old, new):
    program = walk.recipe / "program"
    assert old in program.read_text()
    program.write_text(program.read_text().replace(old, new))


def test_skipped_utterances_are_no_failure(walk):
    with (walk.recipe / "program").open("a") as program:
        program.write("sys.exit(2)\n")
    assert walk.call("--only", "*/old/*")[0] == 0
    assert walk.results.read_text().splitlines()[1].startswith("mine\told\t0\ttest")


def test_a_program_that_was_stopped_from_elsewhere_is_left_for_another_call(walk):
    process = walk.start("--only", "*/old/*", takes={"train": 60})
    walk.wait_for("old train begins")
    os.kill(walk.program(), signal.SIGTERM)
    assert process.wait(60) == 75
    assert walk.call("--only", "*/old/*")[0] == 0 and "old train goes on" in walk.notes()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('{"points" if "old" in given["--tag"] else "score": 30}', "KeyError: 'score'"),
        ('{"score": None if "old" in given["--tag"] else 30}', "TypeError: "),
    ],
)
def test_scores_that_cannot_be_read_fail_their_run_alone(walk, wrong, why):
    change(walk, 'overall = {"score": 30}', f"overall = {wrong}")
    returned, said = walk.call()
    assert returned == 1 and f"mine/old/0: {why}" in said and "error: mine/old/0 failed" in said
    assert [line.split("\t")[1] for line in walk.results.read_text().splitlines()[1:]] == ["new"]
