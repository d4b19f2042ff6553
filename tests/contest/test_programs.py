"""Programs: their output, exit code and memory; an earlier one with the same log is waited for; all can be stopped."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import pytest
from references.recipes import PROGRAM

from espnet_diverse.contest.programs import STOPPED, Programs

KILLED = """
import os, sys, threading, time
from pathlib import Path
from espnet_diverse.contest.programs import Programs
child = [sys.executable, "-c", "import time; open('begun', 'w'); time.sleep(2); open('ended', 'w')"]
threading.Thread(target=Programs().run, args=(child, Path(), Path("log")), daemon=True).start()
while not os.path.exists("begun"):
    time.sleep(0.02)
os.kill(os.getpid(), 9)
"""

MEASURING = """
import sys
from pathlib import Path
from espnet_diverse.contest.programs import Programs
for size in (300_000_000, 1):
    print(Programs().run([sys.executable, "-c", f"x = b'1' * {size}"], Path(), Path("log")).memory)
"""


def python(text):
    return [sys.executable, "-c", text]


def wait_until(condition):
    ends = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_output_is_appended_to_the_log_and_time_is_measured(tmp_path):
    log = tmp_path / "exp" / "a.log"
    first = Programs().run(python("import time; time.sleep(.1); print('said')"), tmp_path, log)
    second = Programs().run(python("import sys; sys.exit('failed')"), tmp_path, log)
    assert log.read_text() == "said\nfailed\n"
    assert (first.code, second.code) == (0, 1)
    assert first.seconds >= 0.1


def test_the_memory_matches_each_program_alone(tmp_path):
    """In a small process: Linux begins to count at the size of the process that starts a program."""
    done = subprocess.run(python(MEASURING), cwd=tmp_path, capture_output=True, text=True, check=True)
    large, small = map(int, done.stdout.split())
    assert 300e6 < large < 400e6 and small < 150e6


def test_a_program_is_one_that_a_signal_ended(tmp_path):
    ended = Programs().run(python("import os; os.kill(os.getpid(), 9)"), tmp_path, tmp_path / "log")
    assert ended.code == -signal.SIGKILL


def test_the_program_of_a_killed_call_is_waited_for(tmp_path, capfd):
    """It holds the lock of its log, which was passed on to it, although the process that started it is gone."""
    killed = Programs().run(python(KILLED), tmp_path, tmp_path / "other.log")
    assert killed.code == -signal.SIGKILL and not (tmp_path / "ended").exists()
    look = python("import os; print(os.path.exists('ended'))")
    assert Programs().run(look, tmp_path, tmp_path / "log").code == 0
    assert (tmp_path / "log").read_text() == "True\n"
    assert f"{tmp_path / 'log'}: waiting for the program that an earlier call has left" in capfd.readouterr().out


def test_recipes_find_the_program_of_this_python(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    ended = Programs().run(["sh", "-c", "command -v espnet-diverse"], tmp_path, tmp_path / "log")
    assert ended.code == 0 and (tmp_path / "log").read_text().strip() == str(PROGRAM)


def test_nothing_starts_after_a_stop(tmp_path):
    programs = Programs()
    programs.stop()
    assert programs.run(python("open('made', 'w')"), tmp_path, tmp_path / "log").code == STOPPED
    assert not (tmp_path / "made").exists()


def test_nothing_starts_if_the_stop_comes_while_the_log_is_locked(tmp_path, monkeypatch):
    programs = Programs()
    monkeypatch.setattr("espnet_diverse.contest.programs.lock", lambda *_: programs.stop() or nullcontext(0))
    assert programs.run(python("open('made', 'w')"), tmp_path, tmp_path / "log").code == STOPPED
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(("number", "interrupted"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_signal_reaches_the_programs_and_handlers_return(tmp_path, number, interrupted):
    programs, former = Programs(), signal.getsignal(number)
    ended = []
    child = python("import time; open('begun', 'w'); time.sleep(60)")
    thread = threading.Thread(target=lambda: ended.append(programs.run(child, tmp_path, tmp_path / "log")))
    with programs.stopping():
        thread.start()
        wait_until((tmp_path / "begun").exists)
        os.kill(os.getpid(), number)
        thread.join(timeout=30)
    assert ended[0].code in (-number, 1)  # Python turns SIGINT into an exception
    assert (programs.stopped, programs.interrupted) == (True, interrupted)
    assert signal.getsignal(number) == former


def test_they_are_stopped_after_some_minutes(tmp_path):
    programs = Programs()
    with programs.stopping(minutes=0.005):
        assert programs.run(python("import time; time.sleep(60)"), tmp_path, tmp_path / "log").code == -signal.SIGTERM


def test_a_program_that_ignores_sigterm_is_killed(tmp_path):
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('begun', 'w'); time.sleep(60)"
    programs, ended = Programs(grace=0.2), []
    thread = threading.Thread(target=lambda: ended.append(programs.run(python(deaf), tmp_path, tmp_path / "log")))
    thread.start()
    wait_until((tmp_path / "begun").exists)
    programs.stop()
    thread.join(timeout=30)
    assert ended[0].code == -signal.SIGKILL
