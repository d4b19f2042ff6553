"""The launch of several processes: what it is given, and what becomes of failures and signals."""

import os
import signal
import socket
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous.api import RendezvousTimeoutError

from espnet_diverse.errors import DataError, InterruptedRunError, TrainingError
from espnet_diverse.training import elastic, espnet_command
from espnet_diverse.training.processes import Processes, run


def failing(exitcode, **files):
    """A launch whose process 1 fails after it has written `files` into the folder of errors."""

    def launch(config, entry):
        def start(task, filled, folder):
            for name, content in files.items():
                (Path(folder) / name[1:]).write_text(content)
            failure = ProcessFailure(local_rank=1, pid=1, exitcode=exitcode, error_file="none")
            raise ChildFailedError("work", {1: failure})

        return start

    return launch


def test_an_error_of_the_user_comes_from_the_process_that_had_it(monkeypatch):
    said = '{"type": "DataError", "message": "no audio"}'
    monkeypatch.setattr(elastic, "elastic_launch", failing(1, _1=said))
    with pytest.raises(DataError, match="^no audio$"):
        run("mt", {}, Processes(nproc=2))


@pytest.mark.parametrize(("given", "expected"), [(None, "WARN"), ("INFO", "INFO")])
def test_the_library_between_gpus_is_quiet_unless_asked(monkeypatch, given, expected):
    monkeypatch.setenv("NCCL_DEBUG", given or "")
    if given is None:
        monkeypatch.delenv("NCCL_DEBUG")
    seen = []
    monkeypatch.setattr(elastic, "elastic_launch", lambda *_: lambda *_: seen.append(os.environ.get("NCCL_DEBUG")))
    run("mt", {}, Processes(nproc=2))
    assert seen == [expected]


@pytest.mark.parametrize(
    ("exitcode", "how"), [(-9, "process 1 was killed by signal 9"), (1, "process 1 failed, see the logs of the run")]
)
def test_processes_that_are_killed_too_often_end_the_training(monkeypatch, exitcode, how):
    monkeypatch.setattr(elastic, "elastic_launch", failing(exitcode))
    with pytest.raises(TrainingError, match=how):
        run("mt", {}, Processes(nproc=2))


def test_what_processes_have_saved_is_said_where_a_signal_ended_them(monkeypatch):
    def stopped(task, config, folder):
        for rank in (10, 9):
            said = f'{{"type": "InterruptedRunError", "message": "SIGTERM: saved by {rank}"}}'
            (Path(folder) / str(rank)).write_text(said)
        raise SignalException("stopped", signal.SIGTERM)

    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: stopped)
    with pytest.raises(InterruptedRunError, match="^SIGTERM: saved by 9$"):
        run("mt", {}, Processes(nproc=2))


def test_a_signal_ends_all_processes(monkeypatch):
    def stopped(*args):
        raise SignalException("stopped", signal.SIGTERM)

    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: stopped)
    with pytest.raises(InterruptedRunError, match="^SIGTERM: ended without a save within the epoch; the same command"):
        run("mt", {}, Processes(nproc=2))


def test_a_meeting_point_whose_port_is_taken_is_one_line():
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        endpoint = f"localhost:{taken.getsockname()[1]}"
        with pytest.raises(TrainingError, match="the processes cannot meet there") as error:
            run("mt", {}, Processes(nproc=2, rdzv_endpoint=endpoint))
    assert str(error.value).startswith(f"--rdzv_endpoint {endpoint}: the processes cannot meet there (")
    assert "; give HOST:PORT of machine 0, with a port that is free there and open to the" in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize(("said", "shown"), [("not all came\nin time", "not all came"), ("", "RendezvousTimeoutError")])
@pytest.mark.parametrize(
    ("given", "where"), [({}, "a free port of this machine"), ({"rdzv_endpoint": "a:1"}, "--rdzv_endpoint a:1")]
)
def test_machines_that_do_not_meet_are_one_line(given, where, said, shown, monkeypatch):
    def alone(*args):
        raise RendezvousTimeoutError(said)

    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: alone)
    with pytest.raises(TrainingError, match=rf"^{where}: the processes cannot meet there \({shown}\); give HOST:PORT"):
        run("mt", {}, Processes(nproc=2, **given))


def test_signals_are_handled_as_before_once_training_has_ended(monkeypatch):
    def start(*args):
        signal.signal(signal.SIGTERM, lambda *_: None)

    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: start)
    before = signal.getsignal(signal.SIGTERM)
    run("mt", {}, Processes(nproc=2))
    assert signal.getsignal(signal.SIGTERM) == before


def test_every_process_has_one_gpu_or_the_cpu(monkeypatch):
    seen = []
    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: lambda *args: seen.append((config, args)))
    monkeypatch.setattr(espnet_command, "check_gpus", lambda ngpu: None)
    run("mt", {"seed": 1}, Processes(ngpu=4, num_nodes=2, node_rank=1, rdzv_endpoint="first:29500"))
    run("mt", {"seed": 1}, Processes(nproc=3))
    (gpus, (_, of_gpu, _)), (cpus, (_, of_cpu, _)) = seen
    assert (gpus.min_nodes, gpus.max_nodes, gpus.nproc_per_node, gpus.rdzv_endpoint) == (2, 2, 4, "first:29500")
    assert gpus.rdzv_configs["is_host"] is False and cpus.rdzv_configs["is_host"] is True
    assert (cpus.min_nodes, cpus.nproc_per_node, cpus.rdzv_endpoint) == (1, 3, "localhost:0")
    assert (gpus.local_addr, cpus.local_addr) == (None, "localhost")
    assert of_gpu == {"seed": 1, "ngpu": 1, "dist_backend": "nccl", "multiprocessing_distributed": False}
    assert of_cpu == {"seed": 1, "ngpu": 0, "dist_backend": "gloo", "multiprocessing_distributed": False}
