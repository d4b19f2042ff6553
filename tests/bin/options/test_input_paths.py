"""Paths that do not exist, or are not what an option needs, are refused before the import of PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from espnet_diverse.bin.main import COMMANDS, command_parser
from espnet_diverse.bin.options.input_paths import DATA_DIR, FILE, TABLE, InputPath, check_kind
from espnet_diverse.errors import DataError

CODE = """
import json, sys
from espnet_diverse.bin.main import main
codes = {main(arguments) for arguments in json.load(sys.stdin)}
print(*codes, *{"torch", "espnet2"} & sys.modules.keys())
"""
WRITE = ["--output_dir", "o"]
SETS = ["--train_dir", "data/train", "--valid_dir", "data/dev"]
DATA = ["--config", "model/small", "--tokens_dir", "tokens", *WRITE]
SAID = {
    ("transcribe", "exp/onw", "x.wav"): "exp/onw: no such model; give the directory of a run, a packed model, or",
    ("transcribe", "exp/sdam", "x.wav"): "exp/sdam: no such model; did you mean exp/sdma?",
    ("transcribe", "exp/sdma", "x.wav", "--lm", "lm"): "lm: no such model; give the directory of a run",
    ("transcribe", "exp/sdma", "x.wav", "--hotwords", "Berlin"): "--hotwords Berlin: there is no such file; write the",
    ("translate", "exp/sdma", "--model_file", "x.pth"): "exp/sdma/x.pth: no such model file; model files there: a.pth",
    ("demo", "exp/sdma", "--examples", "gone"): "--examples gone: there is no such file or directory; correct the path",
    ("serve", "--model", "a=exp/sdam"): "exp/sdam: no such model; did you mean exp/sdma?",
    (
        "decode",
        "exp/sdma",
        "--data_dir",
        "dta/dev",
        *WRITE,
    ): "--data_dir dta/dev: there is no such directory; did you mean data/dev?",
    ("fine-tune", "exp/sdma", "dta", *WRITE): "dta: there is no such directory; did you mean data?",
    ("average", "exp/none"): "exp/none: there is no such directory; give the directory of a run",
    ("average", "exp/sdma/a.pth"): "exp/sdma/a.pth: is a file, and a directory is needed; give the directory of a run",
    ("pack", "exp", "--output", "o.zip"): "exp: is not the directory of a run, because it has no config.yaml",
    ("compare", "data", *WRITE): "data: has no config.yaml; give the directory of a run",
    (
        "rescore",
        "exp/sdma",
        "--decode_dir",
        "exp/sdma",
        *WRITE,
    ): "--decode_dir exp/sdma: has no nbest.jsonl; decode with",
    ("export", "lhotse", "data", "--output", "o"): "data: has no tables, but has dev, train; give one of",
    (
        "stats",
        *DATA,
        "--train_dir",
        "data",
        "--valid_dir",
        "data/dev",
    ): "--train_dir data: has no tables, but has dev, train; give one of them, such as data/train",
    ("stats", *DATA, *SETS): "--tokens_dir tokens: there is no such directory; make it with espnet-diverse tokens",
    (
        "train",
        *DATA,
        *SETS,
        "--stats_dir",
        "exp/stats",
        "--tokens_dir",
        "exp/sdma",
    ): "--stats_dir exp/stats: there is no",
    ("train", *DATA, *SETS, "--stats_dir", "exp", "--tokens_dir", "exp/sdma"): "--stats_dir exp: has no train; make it",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What the commands of `SAID` print on stderr, each a line."""
    folder = tmp_path_factory.mktemp("shell")
    model = ("a.pth", "config.yaml", "tokens.yaml", "valid.acc.ave.pth")
    for name in ("data/train/wav.scp", "data/dev/wav.scp", *(f"exp/sdma/{name}" for name in model)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("task: asr\n")
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=folder, input=json.dumps(list(SAID)), capture_output=True, text=True
    )
    assert done.stdout.split() == ["1"], done.stdout + done.stderr  # neither PyTorch nor ESPnet
    lines = done.stderr.splitlines()
    assert len(lines) == len(SAID), done.stderr
    return dict(zip(SAID, lines, strict=True))


@pytest.mark.parametrize("arguments", SAID, ids=" ".join)
def test_missing_paths_are_refused_before_importing_torch(answers, arguments):
    assert f"{arguments[0]}: error: {SAID[arguments]}" in answers[arguments]


def test_no_command_reads_a_data_directory_or_vocabulary_that_is_not_checked():
    shared = (
        "train_dir",
        "valid_dir",
        "data_dir",
        "tokens_dir",
        "src_tokens_dir",
        "stats_dir",
        "decode_dir",
        "hotwords",
    )
    for command in COMMANDS:
        for action in command_parser(command)[1]._actions:
            assert action.dest not in shared or isinstance(action.type, InputPath), (command, action.dest)


def test_what_is_there_is_no_error(tmp_path):
    (tmp_path / "a").touch()
    FILE.check("--x", tmp_path / "a")
    DATA_DIR.check("--x", tmp_path)  # what it must have depends on the task
    with pytest.raises(DataError, match=f"^{tmp_path}: is a directory, and a file is needed; "):
        FILE.check("", Path(tmp_path))


def test_a_path_to_neither_a_file_nor_a_directory_is_refused(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    (loop := tmp_path / "loop").symlink_to(loop)
    for path, why in ((pipe, "is a pipe"), (Path("/dev/zero"), "a device"), (loop, "symbolic"), (Path("\0"), "null")):
        with pytest.raises(DataError, match=why):
            check_kind("--new", path)
    for path in (tmp_path, tmp_path / "later", tmp_path / "later" / "still", Path(__file__), Path(__file__) / "x"):
        check_kind("--new", path)
    check_kind("--list", pipe, pipe=True)
    TABLE.check("--list", Path("-"))
