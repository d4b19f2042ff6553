"""Training in several processes, on one machine or on many: torch.distributed's elastic launch (torchrun as a library).

Each process has one GPU, or one thread of the CPU, and takes a share of every batch. ESPnet wraps the model in
DistributedDataParallel, which averages gradients over the processes; the process with rank 0 writes. If a process is
killed, all of them start again and go on after the last checkpoint.
"""

import json
import logging
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from espnet_diverse import errors
from espnet_diverse.errors import ConfigError, InterruptedRunError, TrainingError, UserError
from espnet_diverse.training import espnet_command
from espnet_diverse.training.config import Config
from espnet_diverse.training.tasks import TASKS
from espnet_diverse.training.worker import work


@dataclass(frozen=True)
class Processes:
    """The processes of a training.

    Attributes:
        ngpu: Number of GPUs that are used of each machine, each by a process of its own; 0 for the CPU.
        nproc: Number of processes of each machine on the CPU.
        num_nodes: Number of machines, which all run the same command.
        node_rank: Number of this machine, from 0; machine 0 writes the files of the run.
        rdzv_endpoint: "host:port" of machine 0, at which the machines meet; for a single machine a free port is found.
        max_restarts: How often all processes start again after one of them was killed.

    Raises:
        ConfigError: The numbers do not fit each other, or this machine has fewer GPUs.
    """

    ngpu: int = 0
    nproc: int = 1
    num_nodes: int = 1
    node_rank: int = 0
    rdzv_endpoint: str = ""
    max_restarts: int = 3

    def __post_init__(self):
        espnet_command.check_gpus(self.ngpu)
        if self.ngpu and self.nproc > 1:
            raise ConfigError(f"--nproc {self.nproc} is for the CPU; --ngpu {self.ngpu} starts a process for each GPU")
        for name, least in (("nproc", 1), ("num_nodes", 1), ("node_rank", 0), ("max_restarts", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"--{name} {getattr(self, name)} is not possible; give at least {least}")
        if self.node_rank >= self.num_nodes:
            raise ConfigError(f"--node_rank {self.node_rank} is not below --num_nodes {self.num_nodes}")
        host, _, port = self.rdzv_endpoint.rpartition(":")
        if (self.num_nodes > 1 or self.rdzv_endpoint) and not (host and port.isdigit()):
            raise ConfigError(
                f"--rdzv_endpoint {self.rdzv_endpoint!r}: {self.num_nodes} machines need the address of machine 0 as "
                "HOST:PORT"
            )

    @property
    def of_machine(self) -> int:
        """Number of processes of each machine."""
        return max(self.ngpu, self.nproc)


def run(task: str, config: Config, processes: Processes) -> None:
    """Run ESPnet's training command, in this process or in several.

    Args:
        task: Name of the task, a key of `TASKS`.
        config: The checked configuration; its output_dir must be the same folder on all machines.
        processes: The processes.

    Raises:
        UserError: What a process raised; a `TrainingError` if processes were killed too often, an
            `InterruptedRunError` if this process was asked to stop.
    """
    if processes.of_machine * processes.num_nodes == 1:
        espnet_command.run(TASKS[task], config)
        return
    # One GPU for each process, which it finds by its local rank. ESPnet itself starts no processes.
    backend = "nccl" if processes.ngpu else "gloo"
    config.update(ngpu=min(processes.ngpu, 1), dist_backend=backend, multiprocessing_distributed=False)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # it says on the console what is raised
    # A store that all starts shared would tell processes the addresses of those that were killed.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    with tempfile.TemporaryDirectory() as folder:
        try:
            elastic_launch(_launch(processes), work)(task, dict(config), folder)
        except ChildFailedError as error:
            raise _cause(error, Path(folder)) from error
        except SignalException as error:
            said = "ended without a save within the epoch; the same command goes on after the last finished one"
            raise InterruptedRunError(f"{error.sigval.name}: {said}") from error


def _launch(processes: Processes) -> LaunchConfig:
    return LaunchConfig(
        min_nodes=processes.num_nodes,
        max_nodes=processes.num_nodes,
        nproc_per_node=processes.of_machine,
        run_id="espnet_diverse",
        rdzv_backend="c10d",
        rdzv_endpoint=processes.rdzv_endpoint or "localhost:0",
        rdzv_configs={"is_host": processes.node_rank == 0},
        local_addr="localhost" if processes.num_nodes == 1 else None,  # the name of this machine may lead nowhere
        max_restarts=processes.max_restarts,
        monitor_interval=0.2,
        start_method="spawn",
    )


def _cause(error: ChildFailedError, folder: Path) -> UserError:
    """The error of the user that a process has written, or what is known of a process that failed otherwise."""
    for file in sorted(folder.iterdir()):
        said = json.loads(file.read_text(encoding="utf-8"))
        return getattr(errors, said["type"])(said["message"])
    rank, failure = error.get_first_failure()
    how = f"was killed by signal {-failure.exitcode}" if failure.exitcode < 0 else "failed, see the logs of the run"
    advice = "the same command goes on after the last finished epoch"
    return TrainingError(f"process {rank} {how}, and --max_restarts allows no further start; {advice}")
