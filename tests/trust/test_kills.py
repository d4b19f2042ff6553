"""Proofs that a command that was killed, or found no room, gives the same result when it is given again.

Nothing is left behind, neither beside the result nor in the folder of temporary files, which is the same here.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest
from references.kill_proofs import errors_without_room, kills_and_refusals, kills_at_random
from torch import nn

from espnet_diverse.bin.main import main
from espnet_diverse.data.output_paths import check_prepared
from espnet_diverse.packing.adoption import adopt
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.packed.run_files import write_model

TOKENS = ["<blank>", "<unk>", "a", "b", "<sos/eos>"]
COUNTED = ("decode", "transcribe", "score", "prepare", "pack")
"""Commands that are killed 200 times."""
REPORTS = ("stats", "rescore", "classify", "augment", "figure", "analyse", "compare")
COMMANDS = (*COUNTED, "tokens", "export", "align", "validate", "combine", *REPORTS)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def arguments(run, home, command):
    """What a user types for a command that writes in the folder `home`."""
    model, test = str(run.model_dir), run.test_dir
    wavs = sorted(map(str, test.glob("*.wav")))
    text = (test / "text").read_text().split()[1]
    return {
        "decode": [model, "--data_dir", test, "--output_dir", home / "new"],
        "transcribe": [model, *wavs, "--output_dir", home / "new", "--output_format", "all"],
        "score": [
            "--reference",
            run.valid_dir / "text",
            "--hypothesis",
            run.valid_dir / "text",
            "--output_dir",
            home / "new",
        ],
        "prepare": ["kaldi", test, "--sets", "test", "--output_dir", home / "new", "--audio_format", "flac"],
        "pack": [model, "--output", home / "new.zip"],
        "tokens": ["--text", test / "text", "--output_dir", home / "new"],
        "export": ["safetensors", model, "--output", home / "new.safetensors"],
        "align": [model, wavs[0], "--text", text, "--output", home / "new.json"],
        "validate": [test, "--fix", home / "new"],
        "combine": [test, run.valid_dir, "--output_dir", home / "new"],
    }[command]


@pytest.fixture(scope="module")
def decoded_runs(tiny_run, tmp_path_factory):
    """Two copies of a run with a decoded and scored test set, with hypotheses to rank again."""
    folder = tmp_path_factory.mktemp("decoded")
    for name in ("first", "second"):
        shutil.copytree(tiny_run.model_dir, run := folder / name)
        test, out = str(tiny_run.test_dir), str(run / "decode" / "test")
        assert main(["decode", str(run), "--data_dir", test, "--output_dir", out, "--nbest", "2"]) == 0
        assert main(["score", "--reference", f"{test}/text", "--hypothesis", f"{out}/text", "--output_dir", out]) == 0
    return folder


def arguments_of_reports(request, home, command):
    """What a user types for one of `REPORTS`, see `arguments`."""
    run = request.getfixturevalue("tiny_run")
    new = ["--output_dir", home / "new"]
    of_test = [run.model_dir, "--data_dir", run.test_dir, *new]
    if command == "stats":
        return [*run.config, *run.data(), *new]
    if command in ("figure", "analyse"):
        return of_test
    if command in ("classify", "augment"):
        run = request.getfixturevalue("tiny_classifier" if command == "classify" else "tiny_translation")
        kind, options = (["back"], ["--minlenratio", "0.5"]) if command == "augment" else ([], [])
        return [*kind, run.model_dir, "--data_dir", run.test_dir, *options, *new]
    runs = request.getfixturevalue("decoded_runs")
    if command == "compare":
        return [runs / "first", runs / "second", *new]
    return [run.model_dir, "--decode_dir", runs / "first" / "decode" / "test", "--data_dir", run.test_dir, *new]


def given(request, home, command):
    """A function that gives a command, and prints nothing."""
    if command in REPORTS:
        words = arguments_of_reports(request, home, command)
    else:
        words = arguments(request.getfixturevalue("tiny_run"), home, command)
    words = [command, *map(str, words)]

    def give():
        with Path(os.devnull).open("w") as sys.stdout:
            assert main(words) == 0

    return give


@pytest.fixture
def temporary(monkeypatch, home):
    """Temporary files are in `home`."""
    monkeypatch.setattr(tempfile, "tempdir", str(home))


@pytest.mark.trust
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "analyse"])  # ten seconds a call
def test_commands(command, request, home, capfd):
    begin, function = time.monotonic(), given(request, home, command)
    kills, refusals = kills_and_refusals(function, home, (0, 60))
    at_random = max(200 - kills, 0) if command in COUNTED else 0
    kills_at_random(function, home, at_random)
    with capfd.disabled():
        print(
            f"\n{command}: {kills} kills at each step and {at_random} at random, {refusals} calls without room: "
            f"the same files, no others ({time.monotonic() - begin:.0f} s)"
        )
    assert kills > 5 and refusals > 1


@pytest.mark.slow
@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("command", COMMANDS)
def test_without_room_the_error_names_the_file(command, request, home):
    said = errors_without_room(given(request, home, command), command)
    assert len(said) == 1 and str(home) in said[0] and "File too large" in said[0], said


@pytest.mark.slow
@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("command", ["score", "prepare"])
def test_a_command_that_is_killed_at_random(command, request, home):
    kills_at_random(given(request, home, command), home, 3)


@pytest.mark.slow
def test_a_model_that_is_made_from_a_run(tmp_path, home):
    (run := tmp_path / "run").mkdir()
    (run / "stats.npz").write_bytes(b"0" * 100)
    model = nn.Linear(1, 1)

    def write():
        check_prepared(home / "new", "adopt")
        config = {"token_type": "char", "token_list": TOKENS, "src_token_type": "char", "src_token_list": TOKENS}
        config["normalize_conf"] = {"stats_file": str(run / "stats.npz")}
        write_model(model, config, run, home / "new" / "valid.acc.ave.pth", "adopt")

    kills, refusals = kills_and_refusals(write, home, (0, 60, 1000))
    assert kills > 40 and refusals == 6


@pytest.mark.trust
def test_adopt(tiny_run, home):
    kills, refusals = kills_and_refusals(lambda: adopt(tiny_run.model_dir, home / "new", merge([])), home, (0, 10_000))
    assert kills > 20 and refusals == 4
