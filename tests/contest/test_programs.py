"""Programs: their output, exit code and memory; an earlier one with the same log is waited for; all can be stopped."""

import os
import signal
import sys
import threading
import time

import pytest

from espnet_diverse.contest.programs import STOPPED, Programs


def python(text):
    return [sys.executable, "-c", text]


def wait_until(condition):
    ends = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_output_is_added_to_the_log_and_what_it_took_is_told(tmp_path):
    log = tmp_path / "exp" / "a.log"
    memory = 200 * 1_000_000
    first = Programs().run(python(f"import time; x = b'1' * {memory}; time.sleep(.1); print('said')"), tmp_path, log)
    second = Programs().run(python("import sys; sys.exit('failed')"), tmp_path, log)
    assert log.read_text() == "said\nfailed\n"
    assert (first.code, second.code) == (0, 1)
    assert first.seconds >= 0.1
    assert memory < first.memory < memory + 100e6
    assert second.memory < 100e6  # of this program alone, and not of the largest so far


def test_a_program_is_one_that_a_signal_ended(tmp_path):
    ended = Programs().run(python("import os; os.kill(os.getpid(), 9)"), tmp_path, tmp_path / "log")
    assert ended.code == -signal.SIGKILL


def test_the_program_of_a_killed_call_is_waited_for(tmp_path, capfd):
    """It holds the lock of its log, which was passed on to it, although the process that started it is gone."""
    code = (
        "import os, sys, threading, time\nfrom pathlib import Path\nfrom espnet_diverse.contest.programs import Programs\n"
        'child = [sys.executable, \'-c\', \'import time; open("begun", "w"); time.sleep(2); open("ended", "w")\']\n'
        "threading.Thread(target=Programs().run, args=(child, Path(), Path('log')), daemon=True).start()\n"
        "while not os.path.exists('begun'): time.sleep(.02)\n"
        "os.kill(os.getpid(), 9)"
    )
    killed = Programs().run(python(code), tmp_path, tmp_path / "other.log")
    assert killed.code == -signal.SIGKILL and not (tmp_path / "ended").exists()
    look = python("import os; print(os.path.exists('ended'))")
    assert Programs().run(look, tmp_path, tmp_path / "log").code == 0
    assert (tmp_path / "log").read_text() == "True\n"
    assert f"{tmp_path / 'log'}: waiting for the program that an earlier call has left" in capfd.readouterr().out


def test_nothing_starts_after_a_stop(tmp_path):
    programs = Programs()
    programs.stop()
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


def test_what_does_not_stop_is_killed(tmp_path):
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('begun', 'w'); time.sleep(60)"
    programs, ended = Programs(grace=0.2), []
    thread = threading.Thread(target=lambda: ended.append(programs.run(python(deaf), tmp_path, tmp_path / "log")))
    thread.start()
    wait_until((tmp_path / "begun").exists)
    programs.stop()
    thread.join(timeout=30)
    assert ended[0].code == -signal.SIGKILL
