"""Recipes in a copy of the repository's egs/ and conf/, run as a user runs them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = "model/tiny,attention/softmax,heads/group,tag/target_language,conf/demo.yaml"
"""The smallest model whose heads are chosen by language; a pool of 4 for its 2 heads."""
POOL = ["--set", "encoder_conf.attention.selection.pool=4", "--set", "decoder_conf.attention.selection.pool=4"]


@pytest.fixture(scope="session")
def recipes(tmp_path_factory) -> Path:
    """A copy of the recipes, so that no run writes into the working tree; its path has a space."""
    root = tmp_path_factory.mktemp("my recipes")
    for folder in ("egs", "conf"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("data", "exp", "downloads"))
    return root


@pytest.fixture(scope="session")
def run_tiny(recipes) -> Callable[..., subprocess.CompletedProcess]:
    """run_tiny("mtedx/asr1", *options): one epoch on the tiny synthetic corpus, all stages, in exp/tiny."""

    def run(recipe: str, *options: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        environment |= {"OMP_NUM_THREADS": "1"}
        command = [f"egs/{recipe}/run.sh", "--corpus", "synthetic", "--corpus_size", "tiny", "--tag", "tiny"]
        command += ["--config", TINY, *POOL, "--set", "max_epoch=1", "--average_number", "1", "--nj", "1", *options]
        return subprocess.run(command, cwd=recipes, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def recipe(tmp_path):
    """A recipe in a folder with a space, whose `espnet-diverse` prints the plan that it is given and its options."""
    folder = tmp_path / "my egs" / "aishell" / "asr1"
    shutil.copytree(
        ROOT / "egs" / "aishell" / "asr1", folder, ignore=shutil.ignore_patterns("data", "exp", "downloads")
    )
    shutil.copytree(ROOT / "egs" / "common", tmp_path / "my egs" / "common")
    program = tmp_path / ".venv" / "bin" / "espnet-diverse"
    program.parent.mkdir(parents=True)
    program.write_text('#!/usr/bin/env bash\n[[ $1 == plan ]] && cat "$2" && echo "options: ${*:3}"\nexit ${CODE:-0}\n')
    program.chmod(0o755)

    def run(*options: str, cwd: Path = folder, **variables: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, **variables, "PATH": f"{program.parent}{os.pathsep}/usr/bin:/bin"}
        argv = ["bash", str(folder / "run.sh"), *options]
        return subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    run.folder = folder
    return run
