"""The processes of a training, on one machine or on many."""

from dataclasses import dataclass

from espnet_diverse.option_checks import conflict, must_be, number
from espnet_diverse.training.options import MachineOptions

_LAST_PORT = 65535


@dataclass(frozen=True)
class Processes(MachineOptions):
    """The processes of a training; `ngpu` and `nproc` are those of each machine.

    Attributes:
        num_nodes: Number of machines, which all run the same command.
        node_rank: Number of this machine, from 0; machine 0 writes the files of the run.
        rdzv_endpoint: "host:port" of machine 0, at which the machines meet; a single machine needs none.
        max_restarts: How often all processes start again after one of them was killed.

    Raises:
        ConfigError: The numbers do not fit each other, or this machine has fewer GPUs.
    """

    num_nodes: int = number(1, least=1, help="machines, which all run this command")
    node_rank: int = number(0, least=0, help="number of this machine, from 0")
    rdzv_endpoint: str = ""
    max_restarts: int = number(3, least=0, help="restarts after a process was killed")

    def __post_init__(self):
        super().__post_init__()
        from espnet_diverse.training.espnet_command import check_gpus  # imports ESPnet, which --help needs not

        check_gpus(self.ngpu)
        if self.ngpu and self.nproc > 1:
            raise conflict(self, "nproc", f"ngpu {self.ngpu}, which starts a process for each GPU")
        if self.node_rank >= self.num_nodes:
            raise must_be("node_rank", f"below num_nodes {self.num_nodes}", self.node_rank)
        host, _, port = self.rdzv_endpoint.rpartition(":")
        valid = host and port.isdecimal() and 1 <= int(port) <= _LAST_PORT
        if (self.num_nodes > 1 or self.rdzv_endpoint) and not valid:
            allowed = f"HOST:PORT of machine 0, with a port from 1 to {_LAST_PORT}"
            raise must_be("rdzv_endpoint", allowed, self.rdzv_endpoint)

    @property
    def of_machine(self) -> int:
        """Number of processes of each machine."""
        return max(self.ngpu, self.nproc)
