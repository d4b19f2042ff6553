"""Signals become a request that training answers after the next update."""

import os
import signal
import threading

import pytest

from espnet_diverse.errors import InterruptedRunError
from espnet_diverse.training.loop import stopping
from espnet_diverse.training.loop.stopping import stop_on_signals

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


@pytest.fixture(autouse=True)
def hangup():
    """The handler of SIGHUP, which is not ignored even if nohup has started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_signal_is_a_request_and_the_handlers_of_before_come_back(caplog):
    before = [signal.getsignal(number) for number in HANDLED]
    for number in HANDLED[:-1]:
        with stop_on_signals() as request:
            assert request.signal == ""
            os.kill(os.getpid(), number)
            assert request.signal == number.name
            with pytest.raises(
                InterruptedRunError, match=f"^{number.name}: saved there; the same command continues from"
            ):
                request.end("there")
        assert f"{number.name}: training is saved within the epoch, then it ends" in caplog.text
        assert [signal.getsignal(handled) for handled in HANDLED] == before and signal.alarm(0) == 0


def test_an_ignored_sighup_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_on_signals() as request:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not request.number


def test_a_forked_worker_leaves_a_signal_to_its_process(monkeypatch, caplog):
    """Ctrl-C is for all of them; each worker of the data said that training is saved."""
    with stop_on_signals() as request:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        request.on_signal(signal.SIGINT, None)
        assert not request.number and not caplog.records


def test_a_second_interrupt_ends_at_once():
    with pytest.raises(KeyboardInterrupt), stop_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)


def test_training_ends_in_time_if_no_update_is_done(monkeypatch):
    assert stopping.SECONDS < 30
    monkeypatch.setattr(stopping, "SECONDS", 1)
    said = "SIGTERM: ended without a save, because no update was done within 1 seconds; the same command continues from"
    with pytest.raises(InterruptedRunError, match=said), stop_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(5)


@pytest.mark.parametrize("before", [True, False])
def test_a_save_that_has_begun_is_finished_however_long_it_takes(before, monkeypatch):
    monkeypatch.setattr(stopping, "SECONDS", 1)
    finished = []
    with pytest.raises(InterruptedRunError, match="no update was done within 1 seconds"), stop_on_signals() as request:
        if before:
            os.kill(os.getpid(), signal.SIGTERM)
        with request.saving():
            if not before:
                os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(1.5)
            finished.append(request.signal)
        threading.Event().wait(5)  # a request that came too late for this save waits for the next update
    assert finished == ["SIGTERM"]


def test_a_save_without_a_request_leaves_alarms_alone():
    with stop_on_signals() as request, request.saving():
        pass
    assert signal.alarm(0) == 0


def test_a_request_after_a_save_has_its_time():
    with stop_on_signals() as request:
        with request.saving():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        assert 0 < signal.alarm(0) <= stopping.SECONDS


def test_a_started_process_takes_its_time_and_a_signal_twice(monkeypatch):
    monkeypatch.setattr(stopping, "SECONDS", 1)
    with stop_on_signals(started=True) as request:
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):  # of the terminal, and handed on
            os.kill(os.getpid(), number)
        threading.Event().wait(1.2)
        assert request.signal == "SIGINT"


def test_other_threads_get_a_request_that_no_signal_reaches():
    found = []

    def use():
        with stop_on_signals() as request:
            found.append(request.signal)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == [""]
