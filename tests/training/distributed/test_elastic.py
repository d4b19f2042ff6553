"""The launch of several processes: its settings, failures and signals."""

import logging
import os
import signal
import socket
import time
from multiprocessing.resource_tracker import ResourceTracker
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous.api import RendezvousTimeoutError

from espnet_diverse.errors import DataError, InterruptedRunError, TrainingError
from espnet_diverse.training.distributed import elastic
from espnet_diverse.training.distributed.processes import Processes
from espnet_diverse.training.distributed.run import run


@pytest.fixture
def config(tmp_path):
    """The configuration of a run."""
    return {"output_dir": str(tmp_path)}


def failing(exitcode, **files):
    """A launch whose process 1 fails after it has written `files` into the folder of errors."""

    def launch(config, entry):
        def start(task, filled, errors_dir, place):
            for name, content in files.items():
                (Path(errors_dir) / name[1:]).write_text(content)
            failure = ProcessFailure(local_rank=1, pid=1, exitcode=exitcode, error_file="none")
            raise ChildFailedError("work", {1: failure})

        return start

    return launch


def test_an_error_of_the_user_comes_from_the_process_that_had_it(monkeypatch, config):
    said = '{"type": "DataError", "message": "no audio"}'
    monkeypatch.setattr(elastic, "elastic_launch", failing(1, _1=said))
    with pytest.raises(DataError, match="^no audio$"):
        run("mt", config, Processes(nproc=2))


@pytest.mark.parametrize(("given", "expected"), [(None, "WARN"), ("INFO", "INFO")])
def test_the_library_between_gpus_is_quiet_unless_asked(monkeypatch, given, expected, config):
    monkeypatch.setenv("NCCL_DEBUG", given or "")
    if given is None:
        monkeypatch.delenv("NCCL_DEBUG")
    seen = []
    monkeypatch.setattr(elastic, "elastic_launch", lambda *_: lambda *_: seen.append(os.environ.get("NCCL_DEBUG")))
    run("mt", config, Processes(nproc=2))
    assert seen == [expected] and os.environ.get("NCCL_DEBUG") == given


def test_a_launch_leaves_the_environment_as_it_was(monkeypatch, config):
    def launch(*_):
        os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGTERM"  # as PyTorch's
        os.environ["OF_ANOTHER_THREAD"] = "kept"
        return lambda *_: None

    monkeypatch.setenv("OF_ANOTHER_THREAD", "")
    monkeypatch.setattr(elastic, "elastic_launch", launch)
    before = dict(os.environ)
    run("mt", config, Processes(nproc=2))
    assert dict(os.environ) == {**before, "OF_ANOTHER_THREAD": "kept"}


def test_pytorch_does_not_say_which_processes_it_ends_for_an_error(monkeypatch, config):
    logger = logging.getLogger("torch.multiprocessing.spawn")
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    monkeypatch.setattr(elastic, "elastic_launch", lambda *_: lambda *_: None)
    run("mt", config, Processes(nproc=2))
    assert not logger.isEnabledFor(logging.WARNING)


@pytest.mark.parametrize(
    ("exitcode", "how"), [(-9, "process 1 was killed by signal 9"), (1, "process 1 failed, see the logs of the run")]
)
def test_processes_that_are_killed_too_often_end_the_training(monkeypatch, exitcode, how, config):
    monkeypatch.setattr(elastic, "elastic_launch", failing(exitcode))
    with pytest.raises(TrainingError, match=how):
        run("mt", config, Processes(nproc=2))


def test_a_signal_reports_the_save_of_the_lowest_rank(monkeypatch, config):
    def stopped(task, config, errors_dir, place):
        for rank in (10, 9):
            said = f'{{"type": "InterruptedRunError", "message": "SIGTERM: saved by {rank}"}}'
            (Path(errors_dir) / str(rank)).write_text(said)
        raise SignalException("stopped", signal.SIGTERM)

    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: stopped)
    with pytest.raises(InterruptedRunError, match="^SIGTERM: saved by 9$"):
        run("mt", config, Processes(nproc=2))


def test_a_signal_ends_all_processes(monkeypatch, config):
    def stopped(*args):
        raise SignalException("stopped", signal.SIGTERM)

    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: stopped)
    with pytest.raises(InterruptedRunError, match="^SIGTERM: ended without a save within the epoch; the same command"):
        run("mt", config, Processes(nproc=2))


def test_a_meeting_point_whose_port_is_taken_is_one_line(config):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(TrainingError, match="the processes cannot meet there") as error:
            run("mt", config, Processes(num_nodes=2, rdzv_endpoint=endpoint))
    assert str(error.value).startswith(f"--rdzv_endpoint {endpoint}: the processes cannot meet there (")
    assert "; give HOST:PORT of machine 0, with a port that is free there and open to the" in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize(("said", "shown"), [("not all came\nin time", "not all came"), ("", "RendezvousTimeoutError")])
@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"nproc": 2}, r"\S+: the processes cannot meet there \(SAID\); give another folder as TMPDIR"),
        (
            {"num_nodes": 2, "rdzv_endpoint": "a:1"},
            r"--rdzv_endpoint a:1: the processes cannot meet there \(SAID\); give HOST:PORT",
        ),
    ],
)
def test_machines_that_do_not_meet_are_one_line(given, where, said, shown, monkeypatch, config):
    def alone(*args):
        raise RendezvousTimeoutError(said)

    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: alone)
    with pytest.raises(TrainingError, match=f"^{where.replace('SAID', shown)}"):
        run("mt", config, Processes(**given))


def test_signals_are_handled_as_before_once_training_has_ended(monkeypatch, config):
    def start(*args):
        signal.signal(signal.SIGTERM, lambda *_: None)

    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: start)
    before = signal.getsignal(signal.SIGTERM)
    run("mt", config, Processes(nproc=2))
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_closed_terminal_does_not_end_the_tracker(monkeypatch):
    tracker = ResourceTracker()
    monkeypatch.setattr(elastic.resource_tracker, "ensure_running", tracker.ensure_running)
    elastic._start_tracker()
    os.kill(tracker._pid, signal.SIGHUP)
    time.sleep(0.3)
    assert os.waitpid(tracker._pid, os.WNOHANG) == (0, 0)
    assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    tracker._stop()
