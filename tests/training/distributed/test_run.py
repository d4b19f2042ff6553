"""What is launched for one machine and for several."""

from pathlib import Path

import pytest

from espnet_diverse.training import espnet_command
from espnet_diverse.training.distributed import elastic
from espnet_diverse.training.distributed.processes import Processes
from espnet_diverse.training.distributed.run import run


@pytest.fixture
def config(tmp_path):
    """The configuration of a run."""
    return {"output_dir": str(tmp_path)}


def test_every_process_has_one_gpu_or_the_cpu(monkeypatch, config):
    seen = []
    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: lambda *args: seen.append((config, args)))
    monkeypatch.setattr(espnet_command, "check_gpus", lambda ngpu: None)
    run("mt", config | {"seed": 1}, Processes(ngpu=4, num_nodes=2, node_rank=1, rdzv_endpoint="first:29500"))
    run("mt", config | {"seed": 1}, Processes(nproc=3))
    (gpus, (_, of_gpu, _, meeting)), (cpus, (_, of_cpu, _, file)) = seen
    assert (gpus.min_nodes, gpus.max_nodes, gpus.nproc_per_node, gpus.rdzv_endpoint) == (2, 2, 4, "first:29500")
    assert gpus.rdzv_configs["is_host"] is False and meeting == "first:29500"
    assert (cpus.min_nodes, cpus.nproc_per_node, cpus.rdzv_configs["store_type"]) == (1, 3, "file")
    assert (gpus.local_addr, cpus.local_addr) == (None, "localhost")
    assert Path(cpus.rdzv_endpoint).parent == file.parent
    same = config | {"seed": 1, "multiprocessing_distributed": False}
    assert of_gpu == same | {"ngpu": 1, "dist_backend": "nccl"}
    assert of_cpu == same | {"ngpu": 0, "dist_backend": "gloo"}


def test_one_machine_needs_no_address_even_if_one_is_given(monkeypatch, config):
    """As `train.sbatch` does for a job of one machine."""
    seen = []
    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: lambda *args: seen.append((config, args)))
    run("mt", config, Processes(nproc=2, rdzv_endpoint="first:29500"))
    ((launch, (*_, place)),) = seen
    assert launch.rdzv_configs["store_type"] == "file" and isinstance(place, Path)
