"""The cluster of a recipe: on its command line, or in cmd.sh."""

import shlex

STAGES = ("prepare", "stats", "decode", "decode")


def clusters(result):
    """For each command of a plan that has a cluster, the name of the command and its cluster."""
    assert result.returncode == 0, result.stderr
    plan = [shlex.split(line.partition("\t")[2]) for line in result.stdout.splitlines() if "espnet-diverse" in line]
    return [(argv[1], argv[argv.index("--cluster") + 1]) for argv in plan if "--cluster" in argv]


def test_the_cluster_of_the_command_line_serves_data_statistics_and_decoding(recipe):
    assert clusters(recipe("--cluster", "slurm")) == [(stage, "slurm") for stage in STAGES]


def test_a_file_is_relative_to_the_caller(recipe, tmp_path):
    site = tmp_path / "my site.yaml"
    site.write_text("kind: local")
    assert clusters(recipe("--cluster", "my site.yaml", cwd=tmp_path)) == [(stage, str(site)) for stage in STAGES]


def test_cmd_sh_sets_the_default_and_an_empty_value_is_this_machine(recipe):
    assert clusters(recipe(cluster="intruder")) == []
    defaults = recipe.folder / "cmd.sh"
    defaults.write_text(defaults.read_text().replace("cluster=\n", "cluster=slurm\n"))
    assert clusters(recipe()) == [(stage, "slurm") for stage in STAGES]
    assert clusters(recipe("--cluster", "")) == []
