"""Every recipe: the shell parses, options and paths arrive, the fragments merge, the README is complete."""

import os
import re
import shlex
import sys
from functools import lru_cache
from pathlib import Path

import pytest
import yaml
from references.recipes import PROGRAM, ROOT, STAGES, bash, dry_run

from espnet_diverse.contest.settings import recipe_default
from espnet_diverse.runs.config import merge

RECIPES = sorted(path.parent for path in (ROOT / "egs").glob("*/*/run.sh"))
SCRIPTS = sorted(path for path in (ROOT / "egs").rglob("*.s[hb]*") if path.is_file() and not path.is_symlink())


@lru_cache
def help_of(*argv: str | Path) -> str:
    return bash(*argv, "--help").stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_shell_parses(script):
    result = bash("bash", "-n", script)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_shellcheck_finds_nothing(script):
    program = Path(sys.executable).with_name("shellcheck")  # a wheel of the test extra
    result = bash(program, "--shell=bash", "--external-sources", "--exclude=SC1090,SC1091,SC2034,SC2154", script)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("folder", RECIPES, ids=lambda path: str(path.relative_to(ROOT)))
class TestEveryRecipe:
    def test_has_all_its_files(self, folder):
        names = ["run.sh", "path.sh", "cmd.sh", "local/data.sh", "README.md", "conf/train.yaml", "conf/demo.yaml"]
        searched = [] if folder.name in ("lm1", "cls1") else ["conf/decode.yaml"]
        for name in names + searched:
            assert (folder / name).is_file(), name
        assert os.access(folder / "run.sh", os.X_OK)
        assert os.access(folder / "local" / "data.sh", os.X_OK)

    def test_run_sh_is_short(self, folder):
        assert len((folder / "run.sh").read_text().splitlines()) <= 25

    def test_data_sh_is_one_call_of_prepare(self, folder):
        lines = (folder / "local" / "data.sh").read_text().splitlines()
        calls = [line for line in lines if line.startswith("espnet-diverse")]
        assert len(calls) == 1
        assert re.fullmatch(r'espnet-diverse prepare .*"\$@"', calls[0]) and lines[-1] == calls[0]

    def test_default_fragments_merge(self, folder, monkeypatch):
        monkeypatch.chdir(folder)
        for synthetic in (True, False):
            names = recipe_default(folder, "config", synthetic)
            nets = {"lm1": {"lm"}, "cls1": {"classifier"}}.get(folder.name, {"encoder", "decoder", "model_conf"})
            assert nets | {"optim", "max_epoch"} <= merge(names.split(",")).keys()

    def test_every_configuration_is_a_mapping_without_espnets_slow_plots(self, folder):
        for path in folder.glob("conf/*.yaml"):
            settings = yaml.safe_load(path.read_text())
            if path.stem != "decode":
                assert (settings.get("num_att_plot", 0), settings.get("use_matplotlib", False)) == (0, False)

    def test_every_configuration_keeps_the_epochs_that_are_averaged(self, folder):
        driver = (ROOT / "egs/common/recipe.sh").read_text() + (folder / "run.sh").read_text()
        *_, averaged = re.findall(r"average_metric[ =](valid\S+)", driver)
        for path in folder.glob("conf/*.yaml"):
            criteria = yaml.safe_load(path.read_text()).get("best_model_criterion", [])
            assert not criteria or averaged in {f"{phase}.{name}" for phase, name, _ in criteria}, path

    def test_readme_is_complete_and_exact(self, folder):
        readme = (folder / "README.md").read_text()
        assert re.findall(r"^## (.+)$", readme, flags=re.MULTILINE) == [
            "Data",
            "Stages",
            "Options",
            "Configurations",
            "Time and size",
        ]
        assert re.findall(r"^\| \d \| `(\w+)`", readme, flags=re.MULTILINE) == STAGES
        helps = [
            help_of(*argv)
            for argv in ([folder / "run.sh"], [PROGRAM, "prepare"], [PROGRAM, "score"], [PROGRAM, "pack"])
        ]
        known = {name for text in helps for name in re.findall(r"^  --(\w+)", text, flags=re.MULTILINE)}
        assert set(re.findall(r"--(\w+)", readme)) <= known | {"help"}
        files = {path.name for path in folder.glob("conf/*.yaml")}
        assert set(re.findall(r"conf/(\w+\.yaml)", readme)) == files

    @pytest.mark.recipes
    def test_commands_of_the_readme_make_a_plan(self, folder, tmp_path):
        readme = (folder / "README.md").read_text()
        lines = [shlex.split(line, comments=True) for line in re.findall(r"^\./run\.sh.*$", readme, flags=re.MULTILINE)]
        assert len(lines) >= 3
        for argv in lines:
            plan = dry_run(folder, [*argv, "--stop_stage", "decode"], tmp_path)
            assert re.search(r"^\[decode\] espnet-diverse (decode|perplexity|classify) ", plan, re.MULTILINE)
