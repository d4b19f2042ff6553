"""Proofs that training, adopting and contests that were killed, or found no room, end as if nothing had happened.

They are as in test_kills.py, but files that hold times or the name of the run are compared by their names alone.
`make trust` kills each command up to 200 times; ESPNET_DIVERSE_KILLS sets another number.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml
from bin.train.test_contest import SMALL
from references.kill_proofs import content, errors_without_room, kills_and_refusals, kills_beside_another
from references.whisper import write_whisper
from training.test_frozen_features import CTC, SHORT, write_data

from espnet_diverse.bin.main import main
from espnet_diverse.contest.programs import Ended, Programs

KILLS = int(os.environ.get("ESPNET_DIVERSE_KILLS", "200"))
OWN = ("checkpoint*.pth", "data.json", ".lock", "average-*.json", "train-*.json", "costs.json", "contest.*", "*.png")
"""Files of a run or contest that hold its name or times."""
EPOCHS = ["--number", "1", *(f"--set={change}" for change in (*SHORT[1:], "use_tensorboard=false"))]
COMMANDS = ("adopt", "stats", "fine-tune", "fine-tune lora", "fine-tune kept", "contest")


def learned(folder):
    """What `content` returns, of `OWN` without the bytes."""
    return {path: any(map(path.match, OWN)) or found for path, found in content(folder).items()}


@pytest.fixture(scope="module")
def sources(tiny_run, tmp_path_factory):
    """A folder with a Whisper model, its adopted form, data for it, and data and settings of a contest."""
    root = tmp_path_factory.mktemp("sources")
    write_whisper(root / "whisper")
    write_data(root / "data" / "train", (0.9, 0.5, 1.2, 0.7, 0.3))
    write_data(root / "data" / "dev", (0.6, 1.0))
    assert main(["adopt", str(root / "whisper"), "--output_dir", str(root / "adopted")]) == 0
    for name, source in (("train", tiny_run.train_dir), ("dev", tiny_run.valid_dir)):
        shutil.copytree(source, root / "tones" / name)
    shutil.copytree(tiny_run.test_dir, root / "tones" / "test")
    (root / "small.yaml").write_text(yaml.safe_dump(SMALL | {"use_tensorboard": False}))
    (root / "short.yaml").write_text("search: greedy\nmaxlenratio: 0.5\n")
    return root


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder for results, temporary files and the cache of models, which is emptied with it."""
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "home"))
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "home" / "cache"))
    return tmp_path / "home"


@pytest.fixture
def give(request, tiny_run, sources, home, monkeypatch):
    """A function that gives a command of `COMMANDS`; programs of a contest run in its process."""
    monkeypatch.setattr(Programs, "run", lambda self, command, *_: Ended(main(command[3:]), 30.0, 10**9))
    monkeypatch.chdir(sources)
    new, adopted = ["--output_dir", home / "new"], sources / "adopted"
    whisper = [sources / "whisper", sources / "data", *new, *EPOCHS, f"--set={SHORT[0]}"]
    frozen = [*(f"--set={change}" for change in CTC), "--keep_features"]
    sets = ["--train_dir", sources / "data" / "train", "--valid_dir", sources / "data" / "dev"]
    words = {
        "adopt": ["adopt", sources / "whisper", *new],
        "stats": [
            *("stats", "--config", adopted / "train.yaml", "--init_param", next(adopted.glob("*.pth"))),
            *(*sets, "--tokens_dir", adopted, *new, *frozen, *(f"--set={change}" for change in SHORT)),
        ],
        "fine-tune": ["fine-tune", tiny_run.model_dir, sources / "tones", *new, *EPOCHS],
        "fine-tune lora": ["fine-tune", *whisper, "--config", "adapter/lora"],
        "fine-tune kept": ["fine-tune", *whisper, *frozen],
        "contest": [
            *("contest", "attention/softmax", "attention/sma", "--config", "model/tiny,small.yaml"),
            *("--data_dir", "tones", "--decode_config", "decode/joint,short.yaml", "--seeds", "0"),
            *("--timing", "2", "--analyse", "2", *new),
        ],
    }[request.param]
    words = list(map(str, words))

    def run():
        with Path(os.devnull).open("w") as sys.stdout:
            assert main(words) == 0

    return run


@pytest.fixture
def command(request):
    """The command that `give` gives."""
    return request.node.callspec.params["give"]


@pytest.mark.trust
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("give", COMMANDS, indirect=True)
def test_commands(give, command, home, capfd):
    begin = time.monotonic()
    kills, refusals = kills_and_refusals(give, home, (0, 5000), KILLS, learned)
    with capfd.disabled():
        print(
            f"\n{command}: {kills} kills and {refusals} calls without room: the same files, no others "
            f"({time.monotonic() - begin:.0f} s)"
        )
    assert kills >= min(KILLS, 5) and refusals > 1


@pytest.mark.trust
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("give", COMMANDS, indirect=True)
def test_two_processes_or_four(give, command, processes, home, capfd):
    number = -(-KILLS // 20)
    kills_beside_another(give, home, number, learned, processes)
    with capfd.disabled():
        print(f"\n{command}: {number} times one of {processes} processes in a folder killed: the same files, no others")


@pytest.mark.slow
@pytest.mark.parametrize("give", COMMANDS[:-1], indirect=True)  # a contest takes a minute
def test_a_kill_in_the_middle(give, home):
    kills, _ = kills_and_refusals(give, home, (), 1, learned)
    assert kills == 2


@pytest.mark.slow
@pytest.mark.parametrize("give", COMMANDS, indirect=True)
def test_without_room_the_error_names_the_file(give, command, home):
    said = errors_without_room(give, command.split()[0])
    assert len(said) == 1 and str(home) in said[0] and "File too large" in said[0], said
