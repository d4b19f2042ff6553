"""The configuration of a cluster: a YAML file of conf/cluster or of one's own, checked before anything starts.

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
from espnet_diverse.option_checks import OptionError
from espnet_diverse.training.config import CONF_DIR, check_keys, located, merge

SHARED = CONF_DIR / "cluster"
"""The shared configurations, one for each kind of cluster that has something to choose."""


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
class BatchOptions(ClusterOptions):
    """Jobs of a batch system (Slurm, PBS, SGE, LSF), one worker each.

    Attributes:
        cores: CPUs of a job. A worker computes in one thread, so more serve only GPU jobs that come with several.
        memory: Memory of a job.
        walltime: Time limit of a job, as the batch system writes it; a job that ends is replaced.
        queue: Queue, or partition.
        account: Account or project that is charged.
        directives: Further options of the job, as after #SBATCH.
        prologue: Shell lines before the worker starts, such as `module load cuda`.
        interface: Network interface that workers reach this machine by, such as ib0; by default that of its address.
        log_dir: Folder for the logs of jobs.
        python: Python of the workers, of the same environment; by default that of this process.
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
class SSHOptions(ClusterOptions):
    """Machines reached by ssh; `workers` is the number of workers on each.

    Attributes:
        hosts: Names of the machines.
        connect: Arguments of asyncssh.connect, such as username or client_keys.
        memory: Memory of a worker.
        interface: Network interface that workers reach this machine by; by default that of its address.
        python: Python of the workers, of the same environment; by default that of this process.
        keys_dir: Folder of a shared file system for the keys of a run, which nobody else may read.
    """

    hosts: list[str]
    connect: dict[str, Any] = field(default_factory=dict)
    memory: str | None = None
    interface: str | None = None
    python: str = sys.executable
    keys_dir: str = "~/.cache/espnet_diverse/keys"


@dataclass(frozen=True, kw_only=True)
class KubernetesOptions(ClusterOptions):
    """Pods, by the operator of dask-kubernetes.

    Attributes:
        image: Container image with this package and its extra `cluster`.
        namespace: Namespace of the pods.
        resources: Resources of a pod, in the words of Kubernetes: requests and limits.
        volumes: Volumes of the shared file system, in the words of Kubernetes.
        mounts: Where pods have these volumes; the paths must be those of this machine.
    """

    image: str
    namespace: str = "default"
    resources: dict[str, Any] = field(default_factory=dict)
    volumes: list[dict] = field(default_factory=list)
    mounts: list[dict] = field(default_factory=list)


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


KINDS: dict[str, type[ClusterOptions]] = {
    "local": LocalOptions,
    **dict.fromkeys(("slurm", "pbs", "sge", "lsf"), BatchOptions),
    "ssh": SSHOptions,
    "kubernetes": KubernetesOptions,
    "scheduler": SchedulerOptions,
}
"""Kinds of clusters and their options."""
_MEMORY = re.compile(r"[1-9][0-9]*(\.[0-9]+)? ?[kMGT]i?B")


def read_cluster(names: str) -> ClusterOptions:
    """Read the configuration of a cluster.

    Args:
        names: A name in conf/cluster, or a YAML file; several, joined by commas, are merged left to right.

    Raises:
        ConfigError: A file is not found or not valid YAML, the kind or a key is unknown, a key is missing, or a value
            is not allowed; the message has file and line.
    """
    config = merge(names.split(","), search=[Path(), SHARED])
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
        raise OptionError(name, f"{name} is {value!r}; give {allowed}")
    if name == "memory" and value is not None and not _MEMORY.fullmatch(value):
        raise OptionError(name, f"{name} is {value!r}; give a number and a unit, such as 4GB")
    if name == "hosts" and not value:
        raise OptionError(name, f"{name} is {value!r}; give {allowed}, at least one")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_list_of(kind: type, value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


_ALLOWED = {
    int: ("a whole number, 1 or more", lambda value: type(value) is int and value >= 1),
    str: ("a text", _is_text),
    str | None: ("a text, in quotes where it has colons or digits only, or null", lambda x: x is None or _is_text(x)),
    list[str]: ("a list of texts", lambda value: _is_list_of(str, value)),
    list[dict]: ("a list of mappings", lambda value: _is_list_of(dict, value)),
    dict[str, Any]: ("a mapping", lambda value: isinstance(value, dict)),
}
