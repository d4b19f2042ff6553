"""Clusters of each kind, as far as they go without a batch system or other machines."""

import dataclasses
import ssl
import stat
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from espnet_diverse.cluster import backends
from espnet_diverse.cluster.backends import slurm_cluster, started
from espnet_diverse.cluster.configuration import DaskOptions, LocalOptions, SchedulerOptions, SlurmOptions
from espnet_diverse.errors import ClusterError, ConfigError

LOCAL = LocalOptions(kind="local", workers=1)


def test_a_local_cluster_listens_on_this_machine_only_and_takes_no_client_without_its_key():
    from distributed import Client, Security

    with started(LOCAL) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:") and client.submit(abs, -1).result() == 1
        stranger = Security.temporary()
        with pytest.raises((OSError, ssl.SSLError)):
            Client(address, security=stranger, timeout=1)
        with pytest.raises(OSError):
            Client(address.replace("tls:", "tcp:"), timeout=1)
        workers = client.scheduler_info()["workers"].items()
        assert all(each.startswith("tls://127.0.0.1:") and info["nthreads"] == 1 for each, info in workers)


def test_missing_dask_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = r"^--cluster needs the package distributed: pip install 'espnet_diverse\[cluster\]'$"
    with pytest.raises(ConfigError, match=message), started(LOCAL):
        pass


def test_errors_in_the_block_are_reraised_unchanged(monkeypatch):
    from distributed import LocalCluster

    inside = LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0")
    monkeypatch.setitem(backends._STARTS, "local", lambda _: inside)
    with pytest.raises(ZeroDivisionError), started(LOCAL):
        raise ZeroDivisionError


def test_a_nanny_that_is_stopped_while_it_restarts_its_worker_ends_nothing_else(monkeypatch):
    import distributed

    class Local:
        def __init__(self, **_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            raise AssertionError

        def adapt(self, **_):
            pass

    monkeypatch.setattr(distributed, "LocalCluster", Local)
    with backends._local(LOCAL):
        pass
    with pytest.raises(AssertionError), backends._local(LOCAL):
        raise ZeroDivisionError


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return SlurmOptions(
        kind="slurm",
        memory="3GB",
        walltime="01:00:00",
        queue="long",
        account="speech",
        directives=["--gres=gpu:1"],
        prologue=["module load cuda"],
        python="/opt/bin/python",
        keys_dir=str(tmp_path / "keys"),
    )


def check_keys(cluster, keys_dir, python):
    """A job starts one worker of one thread, with keys that only their owner may read."""
    (command,) = [line for line in cluster.job_script().splitlines() if line.startswith(f"{python} ")]
    assert "--nthreads 1 --no-dashboard" in command and f"--tls-key {keys_dir}/" in command
    keys = list(keys_dir.iterdir())
    assert len(keys) == 3 and {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    assert stat.S_IMODE(keys_dir.stat().st_mode) == 0o700


def test_a_job_has_the_options_of_the_site_and_its_keys_are_private(slurm, tmp_path):
    with slurm_cluster(slurm) as cluster:
        lines = ["#SBATCH -p long", "#SBATCH -A speech", "#SBATCH -t 01:00:00", "#SBATCH --gres=gpu:1"]
        assert {*lines, "module load cuda"} <= {*cluster.job_script().splitlines()}
        check_keys(cluster, tmp_path / "keys", "/opt/bin/python")
    assert (tmp_path / "exp" / ".cluster").is_dir()


def test_a_machine_without_slurm_is_told_at_once(slurm, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="^this machine has no command sbatch, .*; start on a login node of Slurm$"):
        started(slurm).__enter__()


def test_a_class_of_dask_gets_its_options_and_private_keys(tmp_path, monkeypatch):
    import dask_jobqueue

    asked = []
    monkeypatch.setattr(dask_jobqueue.PBSCluster, "adapt", lambda _, **limits: asked.append(limits))
    given = {"cores": 1, "memory": "3GB", "queue": "long"}
    options = DaskOptions(kind="PBSCluster", workers=3, options=given, keys_dir=str(tmp_path / "keys"))
    with started(options) as client:
        assert client.scheduler.address.startswith("tls://") and asked == [{"minimum": 3, "maximum": 3}]
        assert "#PBS -q long" in client.cluster.job_script().splitlines()
        check_keys(client.cluster, tmp_path / "keys", sys.executable)


def test_jobs_of_slurm_that_end_are_replaced(slurm, monkeypatch, tmp_path):
    import dask_jobqueue

    asked = []
    (tmp_path / "sbatch").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(dask_jobqueue.SLURMCluster, "adapt", lambda _, **limits: asked.append(limits))
    with started(dataclasses.replace(slurm, workers=3)) as client:
        assert client.scheduler.address.startswith("tls://")
    assert asked == [{"minimum_jobs": 3, "maximum_jobs": 3}]


def test_other_clusters_are_asked_for_their_workers(monkeypatch):
    from distributed import LocalCluster

    class KubeCluster(LocalCluster):
        def __init__(self, name):
            self.asked = name
            super().__init__(n_workers=0, processes=False, dashboard_address="127.0.0.1:0")

        def scale(self, n):
            self.asked = f"{self.asked}: {n}"

    monkeypatch.setitem(sys.modules, "dask_kubernetes", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "dask_kubernetes.operator", SimpleNamespace(KubeCluster=KubeCluster))
    with started(DaskOptions(kind="KubeCluster", workers=3, options={"name": "mine"})) as client:
        assert client.cluster.asked == "mine: 3"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security": None}, "^options of PBSCluster: security is set by this command; remove it$"),
        ({"cores": 1}, r"^the cluster \(PBSCluster\) does not start: .*memory"),
        ({"cores": 1, "memory": "1GB", "quee": "x"}, r"^the cluster \(PBSCluster\) does not start: .*'quee'"),
    ],
)
def test_faults_of_the_options_of_a_class_are_one_line(tmp_path, given, said):
    options = DaskOptions(kind="PBSCluster", options=given, keys_dir=str(tmp_path / "keys"))
    with pytest.raises((ClusterError, ConfigError), match=said), started(options):
        pass


def test_a_folder_of_keys_that_others_may_read_is_refused(slurm, tmp_path):
    (tmp_path / "keys").mkdir(mode=0o755)
    message = rf"^keys_dir {tmp_path}/keys: others may read it, and keys are written to it; chmod 700 {tmp_path}/keys$"
    with pytest.raises(ConfigError, match=message), slurm_cluster(slurm):
        pass


def test_a_machine_that_ssh_does_not_reach_is_one_line_and_no_key_stays(tmp_path):
    given = {"hosts": ["127.0.0.1", "127.0.0.1"], "connect_options": {"port": 1, "known_hosts": None}}
    options = DaskOptions(kind="SSHCluster", options=given, keys_dir=str(tmp_path / "keys"))
    message = r"^the cluster \(SSHCluster\) does not start: .*(refused|Connect)"
    with pytest.raises(ClusterError, match=message), started(options):
        pass
    assert list((tmp_path / "keys").iterdir()) == []


def test_a_scheduler_that_runs_is_used_and_left_running():
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0") as cluster:
        options = SchedulerOptions(kind="scheduler", address=cluster.scheduler_address)
        for number in (1, 2):
            with started(options) as client:
                assert client.submit(abs, -number).result() == number


def test_an_encrypted_scheduler_is_reached_with_the_keys_of_the_configuration(tmp_path):
    from distributed import LocalCluster

    with ExitStack() as stack:
        security = backends._in_files(tmp_path, stack)
        paths = sorted(tmp_path.rglob("*.pem"))
        assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
        cluster = stack.enter_context(
            LocalCluster(
                n_workers=1, processes=False, protocol="tls://", security=security, dashboard_address="127.0.0.1:0"
            )
        )
        cert, key = map(str, paths)
        options = SchedulerOptions(
            kind="scheduler", address=cluster.scheduler_address, ca_file=cert, cert_file=cert, key_file=key
        )
        with started(options) as client:
            assert client.submit(abs, -1).result() == 1


def test_without_the_package_for_kubernetes_the_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_kubernetes", None)
    message = r"^a cluster of kind KubeCluster needs the package dask_kubernetes"
    with pytest.raises(ConfigError, match=message), started(DaskOptions(kind="KubeCluster")):
        pass


def test_every_kind_has_a_start_and_its_options():
    from espnet_diverse.cluster.configuration import KINDS

    assert backends._STARTS.keys() == KINDS.keys()
