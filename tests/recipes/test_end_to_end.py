"""The Aishell recipe from an empty folder to a score table and a figure, as a user runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.recipes

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of the recipes, so that the run does not write into the working tree; its path has a space."""
    root = tmp_path_factory.mktemp("end to end")
    for folder in ("egs", "conf"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("data", "exp", "downloads"))
    return root


def run(repository, *options):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    command = ["egs/aishell/asr1/run.sh", "--corpus", "synthetic", "--corpus_size", "tiny", "--tag", "tiny_sdma"]
    command += ["--config", "model/tiny,attention/sdma,conf/demo.yaml", "--set", "max_epoch=2", "--nj", "1", *options]
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_from_nothing_to_a_table_and_a_figure(repository):
    first = run(repository)
    assert first.returncode == 0, first.stderr[-2000:]
    assert "|dataset|Snt|Chr|" in first.stdout and "|decode/test|" in first.stdout
    experiment = repository / "egs/aishell/asr1/exp/tiny_sdma"
    for made in ("config.yaml", "train.yaml", "valid.acc.ave.pth", "decode/test/score.md", "decode/dev/text"):
        assert (experiment / made).stat().st_size > 0
    assert next(iter((experiment / "figures").glob("*.png"))).read_bytes()[:4] == b"\x89PNG"

    again = run(repository)
    assert again.returncode == 0, again.stderr[-2000:]
    for stage in ("data", "tokens", "stats", "train", "decode"):
        assert f"[{stage}] up to date" in again.stdout
    assert again.stdout.splitlines()[-1].startswith("[score]")

    changed = run(repository, "--dry_run", "--set", "optim_conf.lr=1e-3")
    assert "[data] up to date" in changed.stdout
    assert "[train] would run" in changed.stdout
