"""Start a cluster of each kind by Dask's own classes; this module's functions import Dask.

Between processes Dask sends pickles, so who can speak to a scheduler or worker can run code in it. All connections of a
cluster that is started here are therefore encrypted with a key that is made for the run and that both sides must have;
a local cluster listens on 127.0.0.1 only, and there is no dashboard. A scheduler that runs already has its own rules.
"""

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espnet_diverse.cluster.configuration import (
    BatchOptions,
    ClusterOptions,
    KubernetesOptions,
    LocalOptions,
    SchedulerOptions,
    SSHOptions,
)
from espnet_diverse.errors import ClusterError, ConfigError, UserError

if TYPE_CHECKING:
    from dask_jobqueue.core import JobQueueCluster
    from distributed import Client, Security

_LOCAL = "127.0.0.1"
_NO_DASHBOARD = {"dashboard": False, "dashboard_address": f"{_LOCAL}:0"}
_ONE_THREAD = ["--nthreads", "1", "--no-dashboard", "--dashboard-address", f"{_LOCAL}:0"]  # of a worker
_EXTRA = "pip install 'espnet_diverse[cluster]'"


@contextmanager
def started(options: ClusterOptions) -> Iterator["Client"]:
    """Start a cluster and yield a client of it; at the end stop what was started.

    Raises:
        ConfigError: Dask, or the package of this kind of cluster, is not installed.
        ClusterError: The cluster does not start.
    """
    try:
        import dask
        from distributed import Client
    except ImportError as error:
        raise ConfigError(f"--cluster needs the package {error.name}: {_EXTRA}") from error
    settings = {
        "distributed.scheduler.allowed-failures": options.retries,
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.admin.tick.limit": "60s",  # importing torch takes several, which Dask would warn of
    }
    with _quiet() as logger, dask.config.set(settings), ExitStack() as stack:
        try:
            given = stack.enter_context(_STARTS[options.kind](options))
            client = given if isinstance(given, Client) else stack.enter_context(Client(given))
        except UserError:
            raise
        except ImportError as error:
            package = f"the package {error.name}" if error.name else "another package"  # Dask does not always name it
            raise ConfigError(f"a cluster of kind {options.kind} needs {package}: {_EXTRA}") from error
        except Exception as error:  # of any kind: those of Dask, ssh, batch systems and Kubernetes
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ClusterError(f"the cluster ({options.kind}) does not start: {reason}") from error
        try:
            yield client
        finally:
            logger.setLevel(logging.CRITICAL)  # what is lost from here on was to be stopped


@contextmanager
def _quiet() -> Iterator[logging.Logger]:
    """Log warnings of Dask only, such as that of a worker that is started again."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield logger
    finally:
        logger.setLevel(level)


@contextmanager
def _local(options: LocalOptions) -> Iterator[AbstractContextManager]:
    import dask
    from distributed import LocalCluster

    from espnet_diverse.cluster.replacement import KeepWorkers

    # So long after a worker has died Dask looks for it once, and stops its nanny for good where it is away just then.
    patience = dask.config.set({"distributed.deploy.lost-worker-timeout": "60s"})
    with (
        patience,
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            host=_LOCAL,
            protocol="tls://",
            security=_new_keys(),
            scheduler_kwargs=_NO_DASHBOARD,
            worker_dashboard_address=f"{_LOCAL}:0",
            memory_limit=options.memory or 0,
            silence_logs=logging.WARNING,
        ) as cluster,
    ):
        cluster.adapt(Adaptive=KeepWorkers, minimum=options.workers, maximum=options.workers)
        yield cluster


@contextmanager
def _batch(options: BatchOptions) -> Iterator[AbstractContextManager]:
    with batch_cluster(options) as cluster:
        # Jobs that end, at their time limit for example, are replaced.
        cluster.adapt(minimum_jobs=options.workers, maximum_jobs=options.workers)
        yield cluster


def batch_cluster(options: BatchOptions) -> "JobQueueCluster":
    """A cluster of a batch system, which has no jobs yet."""
    import dask_jobqueue

    classes = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}
    account = "project" if options.kind in ("sge", "lsf") else "account"
    keys_dir = _private(options.keys_dir)
    Path(options.log_dir).mkdir(parents=True, exist_ok=True)
    return getattr(dask_jobqueue, classes[options.kind])(
        cores=options.cores,
        processes=1,
        memory=options.memory,
        walltime=options.walltime,
        queue=options.queue,
        **{account: options.account},
        job_extra_directives=options.directives,
        job_script_prologue=options.prologue,
        interface=options.interface,
        log_directory=options.log_dir,
        python=options.python,
        worker_extra_args=_ONE_THREAD,
        protocol="tls://",
        security=_new_keys(),
        shared_temp_directory=str(keys_dir),
        scheduler_options=dict(_NO_DASHBOARD),
    )


@contextmanager
def _ssh(options: SSHOptions) -> Iterator[AbstractContextManager]:
    """The scheduler runs in this process. Workers on other machines read the keys of the run from a shared folder."""
    import dask
    from distributed import Scheduler, SpecCluster
    from distributed.deploy.ssh import Worker

    with tempfile.TemporaryDirectory(dir=_private(options.keys_dir)) as folder:
        keys, settings = _written(_new_keys(), Path(folder))
        of_worker = {"nthreads": 1, "memory_limit": options.memory or 0, **_NO_DASHBOARD}
        worker = {
            "connect_options": options.connect,
            "kwargs": {**of_worker, "n_workers": options.workers},
            "remote_python": options.python,
        }
        workers = {host: {"cls": Worker, "options": {"address": host, **worker}} for host in options.hosts}
        where = {"interface": options.interface} if options.interface else {}
        scheduler = {"protocol": "tls://", "security": keys, **_NO_DASHBOARD, **where}
        with (
            dask.config.set(settings),
            SpecCluster(workers, {"cls": Scheduler, "options": scheduler}, security=keys) as cluster,
        ):
            yield cluster


def _kubernetes(options: KubernetesOptions) -> AbstractContextManager:
    try:
        from dask_kubernetes.operator import KubeCluster, make_cluster_spec
    except ImportError as error:
        raise ConfigError("a cluster of kind kubernetes needs dask-kubernetes: pip install dask-kubernetes") from error

    spec = make_cluster_spec("espnet-diverse", options.image, options.workers, options.resources)
    pods = [spec["spec"][part]["spec"] for part in ("worker", "scheduler")]
    for pod in pods:
        pod["volumes"] = options.volumes
        pod["containers"][0]["volumeMounts"] = options.mounts
    pods[0]["containers"][0]["args"] += _ONE_THREAD
    return KubeCluster(custom_cluster_spec=spec, namespace=options.namespace)


def _scheduler(options: SchedulerOptions) -> AbstractContextManager:
    from distributed import Client, Security

    given = {"ca_file": options.ca_file, "client_cert": options.cert_file, "client_key": options.key_file}
    tls = {f"tls_{name}": path for name, path in given.items() if path is not None}
    return Client(options.address, security=Security(**tls, require_encryption=True) if tls else None)


_STARTS: dict[str, Callable[[Any], AbstractContextManager]] = {
    "local": _local,
    **dict.fromkeys(("slurm", "pbs", "sge", "lsf"), _batch),
    "ssh": _ssh,
    "kubernetes": _kubernetes,
    "scheduler": _scheduler,
}


def _new_keys() -> "Security":
    """A certificate and key that are valid for a day, in memory."""
    from distributed import Security

    return Security.temporary()


def _private(folder: str) -> Path:
    """A folder that only its owner can read; it is made where it does not exist.

    Raises:
        ConfigError: Others may read the folder.
    """
    path = Path(folder).expanduser()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"keys_dir {path}: others may read it, and keys are written to it; chmod 700 {path}")
    return path


def _written(keys: "Security", folder: Path) -> tuple["Security", dict[str, str]]:
    """The same certificate and key in files, and the settings by which Dask finds them in other processes."""
    from distributed import Security

    paths = {"cert": folder / "cert.pem", "key": folder / "key.pem"}
    for name, value in (("cert", keys.tls_worker_cert), ("key", keys.tls_worker_key)):
        paths[name].touch(mode=0o600)
        paths[name].write_text(value, encoding="utf-8")
    settings = {"distributed.comm.tls.ca-file": str(paths["cert"])}
    for role in ("scheduler", "worker", "client"):
        settings |= {f"distributed.comm.tls.{role}.{name}": str(path) for name, path in paths.items()}
    names = {
        f"tls_{role}_{name}": str(path) for role in ("scheduler", "worker", "client") for name, path in paths.items()
    }
    return Security(tls_ca_file=str(paths["cert"]), **names), settings
