"""Start a cluster of each kind by Dask's own classes; this module's functions import Dask.

Dask sends pickles between processes, so whoever can connect to a scheduler or worker can run code in it. All
connections of a cluster that is started here are therefore encrypted with a key that is made for the run and required
on both sides; a local cluster listens on 127.0.0.1 only, and there is no dashboard. A scheduler that is already running
has its own settings.
"""

import importlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espnet_diverse.cluster.configuration import (
    DASK_CLASSES,
    ClusterOptions,
    DaskOptions,
    LocalOptions,
    SchedulerOptions,
    SlurmOptions,
)
from espnet_diverse.cluster.connections import separated_connections
from espnet_diverse.errors import ClusterError, ConfigError, UserError

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster
    from distributed import Client, Security

_LOCAL = "127.0.0.1"
_NO_DASHBOARD = {"dashboard": False, "dashboard_address": f"{_LOCAL}:0"}
_ONE_THREAD = ["--nthreads", "1", "--no-dashboard", "--dashboard-address", f"{_LOCAL}:0"]  # of a worker
_EXTRA = "pip install 'espnet_diverse[cluster]'"


@contextmanager
def started(options: ClusterOptions) -> Iterator["Client"]:
    """Start a cluster and yield a client of it; stop the cluster at the end.

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
        "distributed.admin.tick.limit": "60s",  # importing torch takes several seconds, and Dask would warn
    }
    with _quiet() as logger, dask.config.set(settings), separated_connections(), ExitStack() as stack:
        try:
            cluster = stack.enter_context(_STARTS[options.kind](options))
            client = cluster if isinstance(cluster, Client) else stack.enter_context(Client(cluster))
        except UserError:
            raise
        except ImportError as error:
            package = f"the package {error.name}" if error.name else "another package"  # Dask does not always name it
            raise ConfigError(f"a cluster of kind {options.kind} needs {package}: {_EXTRA}") from error
        except Exception as error:  # any error of Dask, ssh, batch systems and Kubernetes
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ClusterError(f"the cluster ({options.kind}) does not start: {reason}") from error
        try:
            yield client
        finally:
            logger.setLevel(logging.CRITICAL)  # workers lost from here on were stopped on purpose


@contextmanager
def _quiet() -> Iterator[logging.Logger]:
    """Log only warnings of Dask, such as a warning that a worker is restarted."""
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

    from espnet_diverse.cluster.dask_classes import KeepWorkers

    # After this time Dask looks once for a worker that has died, and stops its nanny for good if it is missing then.
    patience = dask.config.set({"distributed.deploy.lost-worker-timeout": "60s"})
    cluster = LocalCluster(
        n_workers=options.workers,
        threads_per_worker=1,
        host=_LOCAL,
        protocol="tls://",
        security=_new_keys(),
        scheduler_kwargs=_NO_DASHBOARD,
        worker_dashboard_address=f"{_LOCAL}:0",
        memory_limit=options.memory or 0,
        silence_logs=logging.WARNING,
    )
    is_done = False
    try:
        with patience, cluster:
            cluster.adapt(Adaptive=KeepWorkers, minimum=options.workers, maximum=options.workers)
            yield cluster
            is_done = True
    except AssertionError:
        if not is_done:  # Dask's own, if it stops a nanny that is restarting its worker
            raise


@contextmanager
def _slurm(options: SlurmOptions) -> Iterator[AbstractContextManager]:
    if shutil.which("sbatch") is None:  # Dask would find out when it submits a job, and then wait
        raise ClusterError("this machine has no command sbatch, which submits jobs; start on a login node of Slurm")
    with slurm_cluster(options) as cluster:
        # Jobs that end, at their time limit for example, are replaced.
        cluster.adapt(minimum_jobs=options.workers, maximum_jobs=options.workers)
        yield cluster


def slurm_cluster(options: SlurmOptions) -> "SLURMCluster":
    """A cluster of Slurm, which has no jobs yet."""
    from dask_jobqueue import SLURMCluster

    keys = _for_jobs(options.keys_dir)
    Path(options.log_dir).mkdir(parents=True, exist_ok=True)
    return SLURMCluster(
        cores=options.cores,
        memory=options.memory,
        walltime=options.walltime,
        queue=options.queue,
        account=options.account,
        job_extra_directives=options.directives,
        job_script_prologue=options.prologue,
        interface=options.interface,
        log_directory=options.log_dir,
        python=options.python,
        **keys,
    )


def _for_jobs(keys_dir: str) -> dict[str, Any]:
    """The arguments that every class of dask-jobqueue gets."""
    return {
        "processes": 1,
        "worker_extra_args": _ONE_THREAD,
        "protocol": "tls://",
        "security": _new_keys(),
        "shared_temp_directory": str(_private(keys_dir)),
        "scheduler_options": dict(_NO_DASHBOARD),
    }


@contextmanager
def _dask(options: DaskOptions) -> Iterator[AbstractContextManager]:
    """A cluster of one of Dask's other classes, with the arguments of the configuration."""
    module = DASK_CLASSES[options.kind]
    with ExitStack() as stack:
        ours: dict[str, Any] = {}
        if module == "dask_jobqueue":
            ours = _for_jobs(options.keys_dir)
        elif module == "distributed":
            ours = {"security": _in_files(_private(options.keys_dir), stack)}
        if taken := sorted(ours.keys() & options.options):
            raise ConfigError(f"options of {options.kind}: {taken[0]} is set by this command; remove it")
        make = getattr(importlib.import_module(module), options.kind)
        cluster = stack.enter_context(make(**options.options, **ours))
        if module == "dask_jobqueue":
            cluster.adapt(minimum=options.workers, maximum=options.workers)
        elif module != "distributed":  # the hosts of ssh are in the options
            cluster.scale(options.workers)
        yield cluster


def _scheduler(options: SchedulerOptions) -> AbstractContextManager:
    from distributed import Client, Security

    files = {"ca_file": options.ca_file, "client_cert": options.cert_file, "client_key": options.key_file}
    tls = {f"tls_{name}": path for name, path in files.items() if path is not None}
    return Client(options.address, security=Security(**tls, require_encryption=True) if tls else None)


_STARTS: dict[str, Callable[[Any], AbstractContextManager]] = {
    "local": _local,
    "slurm": _slurm,
    "scheduler": _scheduler,
    **dict.fromkeys(DASK_CLASSES, _dask),
}


def _new_keys() -> "Security":
    """A certificate and key that are valid for a day, in memory."""
    from distributed import Security

    return Security.temporary()


def _private(folder: str) -> Path:
    """A folder that only its owner can read; it is made if it does not exist.

    Raises:
        ConfigError: Others may read the folder.
    """
    path = Path(folder).expanduser()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"keys_dir {path}: others may read it, and keys are written to it; chmod 700 {path}")
    return path


def _in_files(folder: Path, stack: ExitStack) -> "Security":
    """New keys in files, which Dask finds by settings that its processes inherit; both exist as long as `stack`."""
    import dask
    from distributed import Security

    keys = _new_keys()
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
    paths = {"cert": place / "cert.pem", "key": place / "key.pem"}
    for name, value in (("cert", keys.tls_worker_cert), ("key", keys.tls_worker_key)):
        paths[name].touch(mode=0o600)
        paths[name].write_text(value, encoding="utf-8")
    settings = {"distributed.comm.tls.ca-file": str(paths["cert"]), "distributed.comm.require-encryption": True}
    settings["distributed.comm.default-scheme"] = "tls"
    settings["distributed.scheduler.preload"] = [separated_connections.__module__]
    for role in ("scheduler", "worker", "client"):
        settings |= {f"distributed.comm.tls.{role}.{name}": str(path) for name, path in paths.items()}
    stack.enter_context(dask.config.set(settings))
    return Security()  # takes the keys from the settings
