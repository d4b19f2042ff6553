"""The processes of a training, on one machine or on many."""

from dataclasses import dataclass

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import Config
from espnet_diverse.training import espnet_command
from espnet_diverse.training.loop.tasks import TASKS

_LAST_PORT = 65535


@dataclass(frozen=True)
class Processes:
    """The processes of a training.

    Attributes:
        ngpu: Number of GPUs that are used of each machine, each by a process of its own; 0 for the CPU.
        nproc: Number of processes of each machine on the CPU.
        num_nodes: Number of machines, which all run the same command.
        node_rank: Number of this machine, from 0; machine 0 writes the files of the run.
        rdzv_endpoint: "host:port" of machine 0, at which the machines meet; a single machine needs none.
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
        if (self.num_nodes > 1 or self.rdzv_endpoint) and not (host and port.isdecimal()):
            raise ConfigError(
                f"--rdzv_endpoint {self.rdzv_endpoint!r}: {self.num_nodes} machines need the address of machine 0 as "
                "HOST:PORT"
            )
        if port and not 1 <= int(port) <= _LAST_PORT:
            raise ConfigError(
                f"--rdzv_endpoint {self.rdzv_endpoint}: {port} is no port; give one from 1 to {_LAST_PORT}"
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
    from espnet_diverse.training.distributed.elastic import (
        launch,  # a third of a second, which one process does not need
    )

    launch(task, config, processes)
