"""Files that recipes share are links to one copy, and recipes have few files of their own."""

import os
import subprocess
from pathlib import Path

import pytest

EGS = Path(__file__).resolve().parents[2] / "egs"
RECIPES = sorted(path.parent for path in EGS.glob("*/*/run.sh"))


def own_files(folder: Path) -> list[Path]:
    """Files that are no links, but for what a run makes."""
    made = {"data", "exp", "downloads"}
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return [path for path in files if not made & set(path.relative_to(EGS).parts)]


def links(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*")) if path.is_symlink()]


def test_identical_files_are_links():
    contents = [path.read_bytes() for path in own_files(EGS)]
    contents = [content for content in contents if content]
    assert len(contents) > 60
    assert len(contents) - len(set(contents)) <= 5


def test_links_are_relative_and_stay_in_egs():
    of_recipes = [path for folder in RECIPES for path in links(folder) if "exp" not in path.relative_to(folder).parts]
    assert len(of_recipes) > 60
    for path in of_recipes:
        assert not path.readlink().is_absolute(), path
        assert path.is_file() and path.resolve().is_relative_to(EGS), path


@pytest.mark.parametrize("folder", RECIPES, ids=lambda path: str(path.relative_to(EGS)))
def test_a_recipe_has_few_files_of_its_own(folder):
    """Besides further experiments; the first recipe has its own demo.yaml and decode.yaml."""
    files = [path.relative_to(folder).as_posix() for path in own_files(folder)]
    usual = ("conf/train.yaml", "conf/demo.yaml", "conf/decode.yaml")
    counted = [name for name in files if name in usual or not name.startswith("conf/")]
    limit = 6 if folder == EGS / "aishell" / "asr1" else 5
    assert len(counted) <= limit, counted


def test_data_sh_runs_by_hand(recipe, tmp_path):
    program = tmp_path / ".venv" / "bin" / "espnet-diverse"
    program.write_text('#!/usr/bin/env bash\nprintf "<%s>" "$@"\n')
    argv = ["bash", str(recipe.folder / "local" / "data.sh"), "--output_dir", "a b"]
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "<prepare><aishell><--on_bad><drop><--output_dir><a b>"
    st1 = recipe.folder.with_name("st1")
    recipe.folder.rename(st1)
    result = subprocess.run(
        [argv[0], str(st1 / "local/data.sh")], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout == "<prepare><aishell><--task><st><--on_bad><drop>"
