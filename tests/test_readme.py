"""What the README says is so: every command in it is run, every block of code works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from espnet_diverse.bin.main import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def lines():
    """Each command of the README, without its comment."""
    return [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.strip()]


def shell(command, cwd=ROOT):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, shell=False)


@pytest.mark.parametrize("line", [line for line in lines() if line.startswith("make ")])
def test_make_targets_exist(line):
    """They set up an environment and run for minutes, this test among them; here make only plans them."""
    done = shell(["make", "-n", *line.split()[1:]])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", [line for line in lines() if line.startswith("./run.sh")])
def test_recipe_commands_plan(line, tmp_path):
    """The recipe itself runs from end to end in tests/recipes/test_end_to_end.py."""
    words = [str(tmp_path) if word.startswith("/path/to") else word for word in line.split()]
    done = shell([*words, *([] if "--dry_run" in words else ["--dry_run"])], cwd=ROOT / "egs/aishell/asr1")
    assert done.returncode == 0, done.stderr
    assert "[train] espnet-diverse train" in done.stdout


@pytest.mark.parametrize("line", [line for line in lines() if line.startswith("espnet-diverse ")])
def test_commands_run(line, tiny_run, tmp_path):
    places = {
        "exp/sdma/analysis": tmp_path / "analysis",
        "exp/sdma": tiny_run.model_dir,
        "data/test": tiny_run.test_dir,
    }
    done = shell([str(places.get(word, word)) for word in line.split()])
    assert done.returncode == 0, done.stderr
    assert "| encoder self-attention |" in done.stdout
    assert (tmp_path / "analysis" / "analysis.html").exists()


def test_no_command_is_left_out():
    known = ("make ", "./run.sh", "cd egs/aishell/asr1", "espnet-diverse ")
    assert [line for line in lines() if not line.startswith(known)] == []


def test_commands_named_are_the_commands_there_are():
    listed = re.search(r"`espnet-diverse ([a-z| ]+)`", README).group(1).split(" | ")
    assert sorted(listed) == sorted(COMMANDS)


def test_the_yaml_builds():
    from espnet_diverse.nets import DECODERS, ENCODERS

    (block,) = blocks("yaml")
    config = yaml.safe_load(block)
    encoder = ENCODERS[config["encoder"]](80, **config["encoder_conf"])
    decoder = DECODERS[config["decoder"]](10, encoder.output_size(), **config["decoder_conf"])
    assert type(encoder.encoders[0].self_attn.core).__name__ == "SDMA"
    assert type(decoder.decoders[0].src_attn.core).__name__ == "SDMA"


def test_the_python_runs(tiny_run):
    (block,) = blocks("python")
    block = block.replace('"exp/sdma/', f'"{tiny_run.model_dir}/')
    done = shell([sys.executable, "-c", block + "\nprint(type(speech2text.asr_model).__name__)"], cwd=ROOT / "tests")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "DiverseASRModel"


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
