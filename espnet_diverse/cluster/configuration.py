"""The configuration of a cluster: a YAML file of conf/cluster or of the user, checked before anything starts.

    kind: slurm
    workers: 8
    memory: 8GB

`read_cluster` merges files as `--config` does, so `slurm,./site.yaml` is the shared file with a site's changes.
"""

import re
import sys
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import must_be
from espnet_diverse.runs.config import CONF_DIR, check_keys, located, merge

SHARED = CONF_DIR / "cluster"
"""The shared configurations, one for each kind of cluster that has options to choose."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Options of every kind.

    Attributes:
        kind: Kind of cluster, a key of `KINDS`.
        workers: Number of workers; each is one process that does one piece of work at a time.
        wait: Seconds without any worker after which the command gives up.
        retries: How often a piece of work is done again after its worker was killed.
    """

    kind: str
    workers: int = 2
    wait: int = 300
    retries: int = 5


@dataclass(frozen=True, kw_only=True)
class LocalOptions(ClusterOptions):
    """Processes of this machine.

    Attributes:
        memory: Memory of a worker, such as 4GB; one that takes more is restarted. Without it there is no limit.
    """

    memory: str | None = None


@dataclass(frozen=True, kw_only=True)
class SlurmOptions(ClusterOptions):
    """Jobs of Slurm, one worker each.

    Attributes:
        cores: CPUs of a job. A worker computes in one thread, so more serve only GPU jobs that come with several.
        memory: Memory of a job.
        walltime: Time limit of a job, such as 24:00:00; a job that ends is replaced.
        queue: Partition.
        account: Account that is charged.
        directives: Further options of the job, as after #SBATCH.
        prologue: Shell lines before the worker starts, such as `module load cuda`.
        interface: Network interface by which workers reach this machine, such as ib0; by default that of its address.
        log_dir: Folder for the logs of jobs.
        python: Python of the workers, with the same environment; by default the Python of this process.
        keys_dir: Folder of a shared file system for the keys of a run, which nobody else may read.
    """

    cores: int = 1
    memory: str = "4GB"
    walltime: str | None = None
    queue: str | None = None
    account: str | None = None
    directives: list[str] = field(default_factory=list)
    prologue: list[str] = field(default_factory=list)
    interface: str | None = None
    log_dir: str = "exp/.cluster"
    python: str = sys.executable
    keys_dir: str = "~/.cache/espnet_diverse/keys"


@dataclass(frozen=True, kw_only=True)
class DaskOptions(ClusterOptions):
    """A cluster of Dask that is named by its class, one of `DASK_CLASSES`.

    Attributes:
        options: Arguments of the class.
        keys_dir: Folder of a shared file system for the keys of a run, which nobody else may read.
    """

    options: dict[str, Any] = field(default_factory=dict)
    keys_dir: str = "~/.cache/espnet_diverse/keys"


@dataclass(frozen=True, kw_only=True)
class SchedulerOptions(ClusterOptions):
    """A Dask scheduler that runs already, with its workers.

    Attributes:
        address: Address of the scheduler, such as tls://head:8786.
        ca_file, cert_file, key_file: Certificate of the authority, and certificate and key of this client.
    """

    address: str
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


DASK_CLASSES = {
    **dict.fromkeys(("HTCondorCluster", "LSFCluster", "MoabCluster", "OARCluster", "PBSCluster"), "dask_jobqueue"),
    "SGECluster": "dask_jobqueue",
    "SSHCluster": "distributed",
    "KubeCluster": "dask_kubernetes.operator",
}
"""The module of each class of Dask that may be a kind."""
KINDS: dict[str, type[ClusterOptions]] = {
    "local": LocalOptions,
    "slurm": SlurmOptions,
    "scheduler": SchedulerOptions,
    **dict.fromkeys(DASK_CLASSES, DaskOptions),
}
"""Kinds of clusters and their options."""
_MEMORY = re.compile(r"[1-9][0-9]*(\.[0-9]+)? ?[kMGT]i?B")


def read_cluster(names: str) -> ClusterOptions:
    """Read the configuration of a cluster.

    Args:
        names: A name in conf/cluster, or a path such as ./site.yaml; several, joined by commas, are merged left to
            right. A name of conf/cluster has priority over a file of the working folder.

    Raises:
        ConfigError: A file is not found or not valid YAML, the kind or a key is unknown, a key is missing, or a value
            is not allowed; the message has file and line.
    """
    # prologue and python are commands: no file of the working folder may replace a known name.
    paths = [str(Path(name).absolute()) if name.startswith(".") else name for name in names.split(",")]
    config = merge(paths, search=[SHARED, Path()])
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        where = config.origin("kind") if "kind" in config else names
        raise ConfigError(f"{where}: kind of cluster {kind!r} is unknown; known: {' '.join(KINDS)}")
    options = KINDS[kind]
    check_keys(config, [option.name for option in fields(options)])
    for option in fields(options):
        if option.name not in config and option.default is option.default_factory is MISSING:
            raise ConfigError(f"{config.origin('kind')}: a cluster of kind {kind} needs {option.name}; add it")
    hints = get_type_hints(options)
    with located(config):
        for name, value in config.items():
            _check(name, hints[name], value)
    return options(**config)


def _check(name: str, hint: object, value: object) -> None:
    """Check a value against the type of its option."""
    allowed, is_allowed = _ALLOWED[hint]
    if not is_allowed(value):
        raise must_be(name, allowed, value)
    if name == "memory" and value is not None and not _MEMORY.fullmatch(value):
        raise must_be(name, "a number and a unit, such as 4GB", value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_ALLOWED = {
    int: ("a whole number, 1 or more", lambda value: type(value) is int and value >= 1),
    str: ("a text", _is_text),
    str | None: ("a text, in quotes if it has digits only, or null", lambda x: x is None or _is_text(x)),
    list[str]: ("a list of texts", _is_list_of_texts),
    dict[str, Any]: ("a mapping", lambda value: isinstance(value, dict)),
}
