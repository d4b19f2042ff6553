"""The README of the recipe own/asr1, followed word by word from a folder of twenty recordings to a transcript."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from references.markdown import ROOT, blocks

from espnet_diverse.corpora.synthetic.table import make

README = ROOT / "egs" / "own" / "asr1" / "README.md"


def commands() -> list[str]:
    """The commands of the first block."""
    return blocks(README, "sh")[0].splitlines()


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A copy of the recipes with one epoch to train, in a folder with a space."""
    root = tmp_path_factory.mktemp("my clone")
    for folder in ("egs", "conf"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("data", "exp", "downloads"))
    config = root / "egs" / "own" / "asr1" / "conf" / "train.yaml"
    config.write_text(re.sub("max_epoch: .*", "max_epoch: 1", config.read_text()))
    return root


def shell(line: str, folder: Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def write_down(table: Path, spoken: dict[str, str]) -> None:
    """Write what is said behind each name of the table, as the README asks for."""
    with table.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["audio", "text"] and rows == [[name, ""] for name in sorted(spoken)]
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *([name, spoken[name]] for name, _ in rows)])


@pytest.mark.recipes
def test_five_commands_lead_from_recordings_to_a_transcript(clone, tmp_path):
    enter, *steps = commands()
    folder = clone / enter.removeprefix("cd ")
    made = make(tmp_path / "voices", size="tiny", nj=1)
    with made.open(encoding="utf-8", newline="") as table:
        spoken = {row["audio"]: row["text"] for row in csv.DictReader(table)}
    (folder / "recordings").mkdir()
    for name in spoken:
        shutil.copy(made.parent / name, folder / "recordings")
    shutil.copy(made.parent / "0001.wav", folder / "new.wav")
    said = []
    for place, line in enumerate(steps):
        done = shell(line, folder)
        assert done.returncode == 0, f"{line}\n{done.stderr[-2000:]}"
        said.append(done.stdout)
        if place == 0:
            write_down(folder / "recordings" / "table.csv", spoken)
    counts = [int(count) for count in re.findall(r"^(?:train|dev|test): (\d+) utterances", said[1], flags=re.MULTILINE)]
    assert counts == [48, 2, 2]  # each training recording at three speeds
    assert "[data] up to date" in said[2] and "|decode/test|2|" in said[2]
    assert len(said[3].splitlines()) <= 1 and len(steps) == 4


def test_the_commands_are_five():
    assert [line.split()[0] for line in commands()] == ["cd", "(echo", "./run.sh", "./run.sh", "espnet-diverse"]
