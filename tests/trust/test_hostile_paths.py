"""Each option of each command that takes words, with paths that hang, have no end or cannot be read: one line, in time.

The options are those that the parsers declare, so that a new one is in the table by itself; of a new command the table
needs a valid call. Each cell is a process of its own. `make trust` runs all, `make test` some.
"""

import argparse
import contextlib
import ctypes
import os
import shutil
import stat
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from conftest import OVERRIDES
from packing.test_pruning import TOKENS, write_model
from references.language_models import write_lm
from references.limited import limited

from espnet_diverse.analysis import classes  # noqa: F401, here once and not in each of the processes
from espnet_diverse.bin.main import COMMANDS, command_parser, main
from espnet_diverse.contest import contest, programs  # noqa: F401
from espnet_diverse.contest.programs import Ended
from espnet_diverse.errors import UserError
from espnet_diverse.serve import application

KINDS = ("fifo", "device", "loop", "hole", "line", "empty", "unreadable", "folder")
HUGE = 1 << 40
LINE = 30_000_000
SECONDS = 30
CRITERION = {"max_epoch": 1, "best_model_criterion": [["valid", "acc", "max"]]}
CALLS = {
    "prepare": "kaldi {train} --sets train --output_dir {out}",
    "validate": "{train}",
    "combine": "{train} {valid} --output_dir {out}",
    "augment": "back {mt} --data_dir {mt_test} --output_dir {out} --minlenratio 0.5",
    "tokens": "--text {test}/text --output_dir {out}",
    "shortlist": "--data_dir {mt_test} --tokens_dir {mt_tokens} --output {out}.s2t",
    "stats": "--config {config} {data} --output_dir {out}",
    "train": "--config {config} {data} --stats_dir {stats} --output_dir {out}",
    "fine-tune": "{asr} {sets} --output_dir {out} --set max_epoch=1",
    "average": "{asr}",
    "prune": "{pool} --language de --output_dir {out}",
    "adopt": "{asr} --output_dir {out}",
    "pack": "{pool} --language de --output {out}.zip",
    "export": "safetensors {asr} --output {out}.safetensors",
    "decode": "{asr} --data_dir {test} --output_dir {out} --nj 1",
    "rescore": "{asr} --decode_dir {decoded} --data_dir {test} --output_dir {out}",
    "transcribe": "{asr} {wav} --output_dir {out} --vad none",
    "align": "{asr} {wav} --text ab --output {out}.json",
    "translate": "{mt} {mt_test}/text --output_dir {out}",
    "demo": "{asr} --port 0",
    "serve": "--model a={asr} --port 0",
    "score": "--reference {test}/text --hypothesis {test}/text --output_dir {out}",
    "classify": "{cls} --data_dir {cls_test} --output_dir {out}",
    "latent": "{vae} --data_dir {vae_test} --output_dir {out}",
    "perplexity": "{lm} --data_dir {test} --output_dir {out}",
    "contest": "attention/softmax attention/sma --config {config} --data_dir {sets} --output_dir {out}",
    "plan": "{plan}",
    "figure": "{asr} --data_dir {test} --output_dir {out}",
    "analyse": "{asr} --data_dir {test} --output_dir {out}",
    "compare": "{scored} --output_dir {out}",
}
"""A valid call of each command; `setting` fills it in."""
FORMS = {("serve", "model"): "a={}", ("combine", "parts"): "d={}", ("combine", "fill"): "utt2lang={}"}
"""How a path stands in the value of an option, where it is not the value."""
PIPES = {("transcribe", "--list"), ("translate", "sources")}
"""Options that read a pipe, as of `<(command)`, line by line: theirs has one without an end in sight."""
UNFINISHED = {"contest"}
"""Commands whose call ends with 1, because what they start is not run."""


class Cell(NamedTuple):
    """A command, one of its options, and the words of a call where the option has the value {bad}."""

    command: str
    option: str
    words: list[str]


def takes_words(action: argparse.Action) -> bool:
    return action.nargs != 0 and not action.choices and action.type not in (int, float)


def cells_of(command: str, call: str) -> list[Cell]:
    """A cell for each option that takes words, in the place of its value in the valid call or added to it."""
    _, parser = command_parser(command)
    args = parser.parse_intermixed_args(call.split())
    found = []
    for action in filter(takes_words, parser._actions):
        value, form = getattr(args, action.dest), FORMS.get((command, action.dest), "{}").format("{bad}")
        bad = [form] * (action.nargs if isinstance(action.nargs, int) else 1)
        if action.option_strings:
            words = [*without(call.split(), action), action.option_strings[0], *bad]
        else:
            first = value[0] if isinstance(value, list) and value else value
            place = call.split().index(str(first)) if first else len(call.split())
            words = [*call.split()[:place], *bad, *call.split()[place + bool(first) :]]
        found.append(Cell(command, action.option_strings[0] if action.option_strings else action.dest, words))
    return found


def without(words: list[str], action: argparse.Action) -> list[str]:
    """A call without an option of one value."""
    for name in set(action.option_strings) & set(words):
        place = words.index(name)
        return words[:place] + words[place + 2 :]
    return words


def make_bad(folder: Path) -> dict[str, Path]:
    """Paths by kind."""
    paths = {kind: folder / kind for kind in ("fifo", "loop", "hole", "line", "empty", "unreadable", "folder")}
    os.mkfifo(paths["fifo"])
    paths["loop"].symlink_to(paths["loop"])
    for kind, size in (("hole", HUGE), ("empty", 0)):
        with paths[kind].open("wb") as file:
            file.truncate(size)
    paths["line"].write_bytes(b"a" * LINE)
    paths["unreadable"].write_text("words\n")
    paths["unreadable"].chmod(0)
    paths["folder"].mkdir()
    paths["device"] = folder / "device"
    try:
        os.mknod(paths["device"], stat.S_IFCHR | 0o666, Path("/dev/zero").stat().st_rdev)
    except PermissionError:
        paths["device"].symlink_to("/dev/zero")
    return paths


def obey_permissions() -> None:
    """Let root obey the permissions of files, in this process, as other users do."""
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()  # version 3 of capabilities
    assert ctypes.CDLL(None).capset(header, none) == 0


def called(words: list[str], said: Path) -> int:
    """Call a command; its outputs are added to a file."""
    for stream in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(each, mode) for each, mode in ((0, "r"), (1, "w"), (2, "w")))
    obey_permissions()
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    if code not in (0, 1, 2):
        raise AssertionError(f"exit code {code}")
    return code


@pytest.fixture
def setting(request, tmp_path, monkeypatch):
    """Values of the names in `CALLS`; commands that serve end at once, and those that start programs do not."""
    runs = {name: request.getfixturevalue(f"tiny_{name}") for name in ("run", "translation", "classifier")}
    asr, mt, cls = runs.values()
    vae = request.getfixturevalue("tiny_autoencoder")
    monkeypatch.setattr(application.Server, "run", lambda *_: None)
    monkeypatch.setattr(programs.Programs, "run", lambda *_: Ended(1))
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    (sets := tmp_path / "sets").mkdir()
    for name, source in (("train", asr.train_dir), ("dev", asr.valid_dir), ("test", asr.test_dir)):
        shutil.copytree(source, sets / name)
    shutil.copytree(asr.model_dir, model := tmp_path / "asr")
    (decoded := tmp_path / "decoded").mkdir()
    line = '{"utterance": "test-00", "hypotheses": [{"text": "ab", "score": -1.0}, {"text": "b", "score": -2.0}]}\n'
    (decoded / "nbest.jsonl").write_text("".join(line.replace("00", f"0{number}") for number in range(3)))
    (plan := tmp_path / "plan").write_text("")
    small = tmp_path / "small.yaml"
    small.write_text(yaml.safe_dump(nested(OVERRIDES | CRITERION)))
    data = f"--train_dir {sets}/train --valid_dir {sets}/dev --tokens_dir {asr.tokens_dir}"
    paths = {"asr": model, "mt": mt.model_dir, "cls": cls.model_dir, "vae": vae.model_dir, "sets": sets, "data": data}
    paths |= {"train": sets / "train", "valid": sets / "dev", "test": sets / "test", "decoded": decoded, "plan": plan}
    paths |= {f"{name}_test": run.test_dir for name, run in (("mt", mt), ("cls", cls), ("vae", vae))}
    paths["mt_tokens"] = mt.tokens_dir
    paths |= {"pool": write_model(tmp_path / "pool", ["heads/subset"]), "lm": tmp_path / "lm"}
    write_lm(paths["lm"], TOKENS)
    paths |= {"wav": sets / "test" / "test-00.wav", "stats": asr.stats_dir, "config": f"model/tiny,{small}"}
    return paths | {"scored": request.getfixturevalue("scored_run"), "out": tmp_path / "out"}


def nested(options: dict) -> dict:
    made: dict = {}
    for key, value in options.items():
        section, _, name = key.rpartition(".")
        (made.setdefault(section, {}) if section else made)[name] = value
    return made


def outcome(words: list[str], folder: Path, fed: Path | None = None) -> tuple[int | None, str]:
    """Exit code of a call in a process of its own, None where it was killed or failed, and what it wrote.

    What it leaves in `folder` is removed.
    """
    (work := folder / "work").mkdir()
    codes, said = folder / "code", folder / "said"

    def call() -> None:
        os.chdir(work)
        if fed:
            threading.Thread(target=feed, args=(fed,), daemon=True).start()
        codes.write_text(str(called(words, said)))

    found = limited(call, UserError, seconds=SECONDS, waits=2 * SECONDS)
    text = said.read_text("utf-8", "replace") if said.exists() else ""
    code = None if found.code else int(codes.read_text())
    for path in folder.glob("out*"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.rmtree(work)
    said.unlink(missing_ok=True)
    return code, text + found.said


def feed(pipe: Path) -> None:
    """Write a line into a pipe that is longer than any of a text."""
    with contextlib.suppress(BrokenPipeError), pipe.open("wb") as file:
        file.write(b"a" * LINE)


def fault(cell: Cell, kind: str, folder: Path) -> str:
    """What is wrong with the call of a cell; "" for nothing."""
    (bad := folder / "bad").mkdir()
    path = make_bad(bad)[kind]
    before = path.lstat()
    words = [cell.command, *(word.format(bad=path) for word in cell.words)]
    fed = path if kind == "fifo" and (cell.command, cell.option) in PIPES else None
    code, said = outcome(words, folder, fed)
    kept = path.exists(follow_symlinks=False) and path.lstat().st_ino == before.st_ino
    shutil.rmtree(bad)
    last = (said.splitlines() or [""])[-1]
    if code not in (0, 1, 2) or "Traceback" in said:
        return f"ends with {code}: {said[-1000:]}"
    if kind in ("fifo", "device", "loop") and not kept:
        return "is removed or replaced"
    if code == 1 and not any(name in last for name in (str(path), path.name, cell.option.removeprefix("--"))):
        return f"is not named: {last}"
    return ""


def faults(commands: Iterable[str], setting: dict[str, object], folder: Path) -> tuple[Counter[str], list[str]]:
    """Cells by command, and their faults."""
    counts: Counter[str] = Counter()
    found = []
    calls = {command: CALLS[command].format(**setting) for command in commands}
    for command, call in calls.items():
        code, said = outcome([command, *call.split()], folder)
        assert code == (command in UNFINISHED), f"{command}: {said}"
    for command, call in calls.items():
        for cell in cells_of(command, call):
            for kind in KINDS:
                counts[command] += 1
                if what := fault(cell, kind, folder):
                    found.append(f"{command} {cell.option} {kind} {what}")
    return counts, found


def test_every_command_has_a_call():
    assert CALLS.keys() == COMMANDS.keys()


@pytest.mark.slow
def test_paths_of_some_commands(setting, tmp_path):
    counts, found = faults(("validate", "combine", "score"), setting, tmp_path)
    assert not found, "\n".join(found)
    assert min(counts.values()) >= 3 * len(KINDS)


@pytest.mark.trust
@pytest.mark.timeout(7200)
def test_paths_of_all_commands(setting, tmp_path, capsys):
    counts, found = faults(COMMANDS, setting, tmp_path)
    with capsys.disabled():
        options = counts.total() // len(KINDS)
        print(f"\n{counts.total()} hostile paths of {options} options of {len(counts)} commands: {len(found)} failures")
    assert not found, "\n".join(found)
