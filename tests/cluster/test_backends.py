"""Clusters of each kind, as far as they go without a batch system, other machines or Kubernetes."""

import ssl
import stat
import sys
import types
from dataclasses import replace

import pytest

from espnet_diverse.cluster import backends
from espnet_diverse.cluster.backends import batch_cluster, started
from espnet_diverse.cluster.configuration import (
    BatchOptions,
    KubernetesOptions,
    LocalOptions,
    SchedulerOptions,
    SSHOptions,
)
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


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = r"^--cluster needs the package distributed: pip install 'espnet_diverse\[cluster\]'$"
    with pytest.raises(ConfigError, match=message), started(LOCAL):
        pass


def test_what_the_block_raises_comes_out_as_it_is(monkeypatch):
    from distributed import LocalCluster

    inside = LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0")
    monkeypatch.setitem(backends._STARTS, "local", lambda _: inside)
    with pytest.raises(ZeroDivisionError), started(LOCAL):
        raise ZeroDivisionError


@pytest.fixture
def batch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return BatchOptions(
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


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("slurm", ["#SBATCH -p long", "#SBATCH -A speech", "#SBATCH -t 01:00:00", "#SBATCH --gres=gpu:1"]),
        ("pbs", ["#PBS -q long", "#PBS -A speech", "#PBS -l walltime=01:00:00", "#PBS --gres=gpu:1"]),
        ("sge", ["#$ -q long", "#$ -P speech", "#$ -l h_rt=01:00:00", "#$ --gres=gpu:1"]),
        ("lsf", ["#BSUB -q long", '#BSUB -P "speech"', "#BSUB -W 01:00:00", "#BSUB --gres=gpu:1"]),
    ],
)
def test_a_job_has_the_options_of_the_site_and_its_keys_are_private(batch, tmp_path, kind, lines):
    with batch_cluster(replace(batch, kind=kind)) as cluster:
        script = cluster.job_script()
        for line in [*lines, "module load cuda"]:
            assert line in script.splitlines()
        (command,) = [line for line in script.splitlines() if line.startswith("/opt/bin/python ")]
        assert "--nthreads 1 --no-dashboard" in command and f"--tls-key {tmp_path}/keys/" in command
        keys = list((tmp_path / "keys").iterdir())
        assert len(keys) == 3 and {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
        assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert (tmp_path / "exp" / ".cluster").is_dir()


def test_a_folder_of_keys_that_others_may_read_is_refused(batch, tmp_path):
    (tmp_path / "keys").mkdir(mode=0o755)
    message = rf"^keys_dir {tmp_path}/keys: others may read it, and keys are written to it; chmod 700 {tmp_path}/keys$"
    with pytest.raises(ConfigError, match=message), started(batch):
        pass


def test_a_machine_that_ssh_does_not_reach_is_one_line(tmp_path):
    options = SSHOptions(
        kind="ssh", hosts=["127.0.0.1"], connect={"port": 1, "known_hosts": None}, keys_dir=str(tmp_path / "keys")
    )
    with (
        pytest.raises(ClusterError, match=r"^the cluster \(ssh\) does not start: .*(refused|Connect)"),
        started(options),
    ):
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

    keys, _ = backends._written(backends._new_keys(), tmp_path)
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    with LocalCluster(
        n_workers=1, processes=False, protocol="tls://", security=keys, dashboard_address="127.0.0.1:0"
    ) as cluster:
        options = SchedulerOptions(
            kind="scheduler", address=cluster.scheduler_address, ca_file=cert, cert_file=cert, key_file=key
        )
        with started(options) as client:
            assert client.submit(abs, -1).result() == 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_pods_get_the_image_the_volumes_and_one_thread(monkeypatch):
    made = {}

    def spec(name, image, n_workers, resources):
        pods = {part: {"spec": {"containers": [{"args": ["run"], "image": image}]}} for part in ("worker", "scheduler")}
        return {"spec": pods, "given": (name, n_workers, resources)}

    operator = types.ModuleType("dask_kubernetes.operator")
    operator.make_cluster_spec, operator.KubeCluster = spec, lambda **options: made.update(options)
    monkeypatch.setitem(sys.modules, "dask_kubernetes", types.ModuleType("dask_kubernetes"))
    monkeypatch.setitem(sys.modules, "dask_kubernetes.operator", operator)
    volumes, mounts = [{"name": "data"}], [{"name": "data", "mountPath": "/data"}]
    options = KubernetesOptions(kind="kubernetes", image="i:1", namespace="us", volumes=volumes, mounts=mounts)
    backends._kubernetes(options)
    pods = made["custom_cluster_spec"]["spec"]
    assert made["namespace"] == "us" and made["custom_cluster_spec"]["given"] == ("espnet-diverse", 2, {})
    assert pods["worker"]["spec"]["volumes"] == pods["scheduler"]["spec"]["volumes"] == volumes
    (container,) = pods["worker"]["spec"]["containers"]
    assert container["image"] == "i:1" and container["volumeMounts"] == mounts
    assert container["args"][:4] == ["run", "--nthreads", "1", "--no-dashboard"]


def test_without_the_package_for_kubernetes_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_kubernetes.operator", None)
    options = KubernetesOptions(kind="kubernetes", image="i:1")
    with pytest.raises(ConfigError, match="needs dask-kubernetes: pip install dask-kubernetes$"), started(options):
        pass


def test_every_kind_has_a_start_and_its_options():
    from espnet_diverse.cluster.configuration import KINDS

    assert backends._STARTS.keys() == KINDS.keys()
