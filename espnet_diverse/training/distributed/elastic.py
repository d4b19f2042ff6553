"""Training in several processes by torch.distributed's elastic launch (torchrun as a library).

Each process has one GPU, or one thread of the CPU, and takes a share of every batch. ESPnet wraps the model in
DistributedDataParallel, which averages gradients over the processes; the process with rank 0 writes. If a process is
killed, all of them restart from the last checkpoint. A signal to this process is passed on to them: they save and end.
"""

import logging
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous.api import RendezvousError, RendezvousStateError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from espnet_diverse import errors
from espnet_diverse.errors import InterruptedRunError, TrainingError, UserError, first_line
from espnet_diverse.process_state import environment
from espnet_diverse.runs.config import Config
from espnet_diverse.training.distributed.processes import Processes
from espnet_diverse.training.distributed.rendezvous import KEY, on_one_machine, on_several_machines
from espnet_diverse.training.distributed.worker import work
from espnet_diverse.untrusted.whole_files import read_json

_LONGEST = 200  # characters of a message of PyTorch
_ELASTIC = "torch.distributed.elastic"
_LOGGERS = (_ELASTIC, f"{_ELASTIC}.agent.server.api", f"{_ELASTIC}.multiprocessing.api", "torch.multiprocessing.spawn")
"""Loggers that repeat errors on the console, or report which processes end because of it."""
_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
_STOPS = tuple(signal.Signals[name] for name in _SIGNALS.split(","))


def launch(task: str, config: Config, processes: Processes) -> None:
    """Run ESPnet's training command in `processes`; see `espnet_diverse.training.distributed.run.run`."""
    # One GPU for each process, which it finds by its local rank. ESPnet itself starts no processes.
    backend = "nccl" if processes.ngpu else "gloo"
    config.update(ngpu=min(processes.ngpu, 1), dist_backend=backend, multiprocessing_distributed=False)
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    output_dir = Path(config["output_dir"])
    _start_tracker()
    with _private_folder() as (folder, errors_dir), _signal_handlers_kept(), _variables():
        place = folder / "processes" if processes.num_nodes == 1 else processes.rdzv_endpoint
        try:
            elastic_launch(_launch(processes, folder, output_dir), work)(task, dict(config), str(errors_dir), place)
        except ChildFailedError as error:
            raise _said(errors_dir) or _lost(error) from error
        except RendezvousError as error:
            raise _said(errors_dir) or _not_met(processes, folder, error) from error
        except SignalException as error:
            message = "ended without a save within the epoch; the same command continues from the last save"
            raise _said(errors_dir) or InterruptedRunError(f"{error.sigval.name}: {message}") from error
        finally:
            if processes.node_rank == 0:
                (output_dir / KEY).unlink(missing_ok=True)


def _start_tracker() -> None:
    """Start the process that tracks semaphores for Python, with SIGHUP blocked; it ignores SIGTERM by itself.

    A closed terminal sends SIGHUP to all processes; a tracker that starts after it knows none of their semaphores.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        resource_tracker.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _private_folder() -> Iterator[tuple[Path, Path]]:
    """Yield a folder that only this user can read or write, and one in it for the errors of the processes."""
    with tempfile.TemporaryDirectory(prefix="espnet_diverse.") as name:
        (errors_dir := Path(name, "errors")).mkdir()
        yield Path(name), errors_dir


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Put back the handlers that the launch replaces with its own, which raise in whatever runs afterwards."""
    main = threading.current_thread() is threading.main_thread()  # elsewhere the launch replaces none
    before = {number: signal.getsignal(number) for number in _STOPS} if main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _variables() -> AbstractContextManager[None]:
    """The environment that the launch and the processes need while they run."""
    return environment(
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",  # or the launch opens a port; see `rendezvous.py`
        NCCL_DEBUG=os.environ.get("NCCL_DEBUG", "WARN"),  # ESPnet sets INFO: dozens of lines of each process
        TORCHELASTIC_SIGNALS_TO_HANDLE=_SIGNALS,  # the launch sets it, and leaves it
    )


def _launch(processes: Processes, folder: Path, output_dir: Path) -> LaunchConfig:
    if processes.num_nodes == 1:
        meeting = on_one_machine(folder)
    else:
        meeting = on_several_machines(processes.rdzv_endpoint, processes.node_rank == 0, output_dir)
    return LaunchConfig(
        min_nodes=processes.num_nodes,
        max_nodes=processes.num_nodes,
        nproc_per_node=processes.of_machine,
        run_id="espnet_diverse",
        max_restarts=processes.max_restarts,
        monitor_interval=0.2,
        start_method="spawn",
        signals_to_handle=_SIGNALS,
        **meeting,
    )


def _said(folder: Path) -> UserError | None:
    """Return the error of the user that a process has written; of several, the first by name."""
    for file in sorted(folder.iterdir(), key=lambda file: int(file.name)):
        message = read_json(file)
        return getattr(errors, message["type"])(message["message"])
    return None


def _not_met(processes: Processes, folder: Path, error: RendezvousError) -> TrainingError:
    """The error of launches or machines that did not find each other, or that a stranger wrote to."""
    cause = error.__cause__ or error
    message = first_line(cause)[:_LONGEST]
    if processes.num_nodes == 1:
        return TrainingError(f"{folder}: the processes cannot meet there ({message}); give another folder as TMPDIR")
    where = f"--rdzv_endpoint {processes.rdzv_endpoint}"
    if isinstance(error, RendezvousStateError):
        return TrainingError(f"{where}: {message}")
    advice = "give HOST:PORT of machine 0, with a port that is free there and open to the other machines"
    return TrainingError(f"{where}: the processes cannot meet there ({message}); {advice}, and start all in 10 minutes")


def _lost(error: ChildFailedError) -> TrainingError:
    """The error of a process that failed otherwise."""
    rank, failure = error.get_first_failure()
    how = f"was killed by signal {-failure.exitcode}" if failure.exitcode < 0 else "failed, see the logs of the run"
    advice = "the same command continues from the last save"
    return TrainingError(f"process {rank} {how}, and --max_restarts allows no further start; {advice}")
