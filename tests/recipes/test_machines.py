"""Recipes on several machines, and further options of training."""

import subprocess

from references.markdown import ROOT
from references.plans import commands, value


def test_training_of_several_machines_is_one_stage_on_each(recipe):
    shared = ["--dry_run", "--ngpu", "4", "--num_nodes", "2", "--rdzv_endpoint", "first:29400"]
    first, second = (commands(recipe(*shared, "--node_rank", rank)) for rank in "01")
    (training,) = (argv for stage, argv in first if argv[1] == "train")
    assert [value(training, f"--{name}") for name in ("ngpu", "num_nodes", "node_rank")] == ["4", "2", "0"]
    assert value(training, "--rdzv_endpoint") == "first:29400" and len({stage for stage, _ in first}) == 6
    assert [(stage, argv[1], value(argv, "--node_rank")) for stage, argv in second] == [("train", "train", "1")]
    (alone,) = (argv for _, argv in commands(recipe("--dry_run", "--nproc", "2")) if argv[1] == "train")
    assert value(alone, "--nproc") == "2" and "--num_nodes" not in alone


def test_options_of_training_are_passed_on(recipe):
    plan = commands(recipe("--dry_run", "--train_options", "--allow_changed max_epoch optim_conf.lr"))
    (training,) = (argv for _, argv in plan if argv[1] == "train")
    assert training[-3:] == ["--allow_changed", "max_epoch", "optim_conf.lr"]


def test_slurm_starts_the_training_of_each_machine(tmp_path):
    """With programs that stand for those of Slurm: srun runs its command as machine 1."""
    programs = {
        "scontrol": "printf '%s\\n' node3 node4",
        "srun": 'shift; SLURM_NODEID=1 exec "$@"',
        "recipe": 'echo "$*"',
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        **{"SLURM_JOB_NODELIST": "node[3-4]", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "4"},
    }
    command = [ROOT / "egs" / "common" / "train.sbatch", "recipe", "--corpus", "synthetic"]
    for job, port in (("7", 20007), ("12345678", 29678)):  # jobs that share a machine have ports of their own
        environment["SLURM_JOB_ID"] = job
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        meeting = f"--ngpu 4 --num_nodes 2 --rdzv_endpoint node3:{port}"
        assert result.stdout.splitlines() == [
            "--corpus synthetic --stop_stage stats",
            f"--corpus synthetic --stage train --stop_stage train {meeting} --node_rank 1",
            "--corpus synthetic --stage train --ngpu 4",
        ]
