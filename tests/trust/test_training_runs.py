"""Proofs on training runs: killed, stopped, out of room, altered. `make trust` runs them in full and prints figures.

Every process is a fork of this one, so that none of them imports anything. Each test has a short form in `make test`.
"""

import os
import random
import re
import resource
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from references.killed_workers import killing_workers
from references.train_command import train

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ModelError
from espnet_diverse.runs import checkpoint
from espnet_diverse.training.checkpoints import run_state

SETTINGS = ["batch_size=6", "save_interval_steps=1", "keep_nbest_models=1", "use_tensorboard=false"]
SHORT_AND_FULL = [pytest.param(False, id="short"), pytest.param(True, id="full", marks=pytest.mark.trust)]
ENDED, STOPPED = 0, 75


@pytest.fixture(scope="module")
def straight(tiny_run, tmp_path_factory):
    """A run that nothing happens to."""
    folder = tmp_path_factory.mktemp("trust") / "exp"
    assert train(tiny_run, folder, *SETTINGS) == 0
    return folder


@pytest.fixture
def tell(capfd, request):
    """A function that prints a figure."""

    def show(text):
        with capfd.disabled():
            print(f"\n{request.node.name}: {text}", flush=True)

    return show


def start(run, folder, prepare=lambda: None, settings=SETTINGS):
    """Train in another process, after `prepare`; what it prints goes to a file beside the folder."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with folder.with_suffix(".out").open("w") as sys.stdout:
            sys.stderr = sys.stdout
            prepare()
            code = train(run, folder, *settings)
    finally:
        os._exit(code)


def end(child):
    """Exit code of a process, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def printed(folder):
    return folder.with_suffix(".out").read_text()


def finish(run, folder, straight):
    """Continue to the end; the weights are those of the run that nothing happened to."""
    assert end(start(run, folder)) == ENDED, printed(folder)
    check_same(folder, straight)


def check_same(folder, straight):
    for name in ("2epoch.pth", "valid.acc.ave.pth", "valid.loss.ave.pth"):
        one, other = checkpoint.load(folder / name), checkpoint.load(straight / name)
        assert all(torch.equal(one[key], other[key]) for key in other), name
    assert not list(folder.glob(".*.partial*"))


def killing(operation):
    """Make this process kill itself at an operation on files, in the middle if it writes; each has a number."""
    count = iter(range(1, 10**9))

    def killed(function):
        def act(*args, **options):
            if next(count) == operation:
                if function is write:
                    write(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **options)

        return act

    def write(file, content):
        os.write(file.fileno(), content)

    class File:
        def __init__(self, file):
            self.file, self.write = file, lambda content: killed_write(file, content)
            self.flush, self.fileno = file.flush, file.fileno

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

    killed_write, opened = killed(write), Path.open

    def open_path(path, mode="r", *args, **options):
        file = opened(path, mode, *args, **options)
        return File(file) if mode == "wb" and ".partial" in path.name else file

    Path.open = open_path
    for name in ("fsync", "replace", "unlink", "symlink", "link"):
        setattr(os, name, killed(getattr(os, name)))


@pytest.mark.parametrize("full", SHORT_AND_FULL)
def test_a_kill_at_every_write_of_the_save_path(full, tiny_run, straight, tmp_path, tell):
    operation = kills = 0 if full else 12
    while True:
        operation += 1
        folder = tmp_path / str(operation)
        code = end(start(tiny_run, folder, lambda operation=operation: killing(operation)))
        if code == ENDED:
            check_same(folder, straight)
            break
        assert code == -signal.SIGKILL, printed(folder)
        kills += 1
        finish(tiny_run, folder, straight)
        shutil.rmtree(folder)
        if not full and operation == 14:
            break
    tell(f"{kills} operations of saves, each killed once: all continue bit for bit")
    assert kills > (40 if full else 1)


@pytest.mark.parametrize("full", SHORT_AND_FULL)
def test_kills_at_random(full, tiny_run, straight, tmp_path, tell):
    draw, kills, runs = random.Random(0), 0, 0
    begin = time.monotonic()
    assert end(start(tiny_run, tmp_path / "timed")) == ENDED
    seconds = time.monotonic() - begin
    while kills < (200 if full else 1):
        folder = tmp_path / f"{runs}"
        child = start(tiny_run, folder)
        time.sleep(draw.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        if end(child) == ENDED:
            check_same(folder, straight)
            runs += 1
        else:
            kills += 1
    finish(tiny_run, folder, straight)
    tell(f"{kills} kills at random in {runs + 1} runs: all continue bit for bit")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("full", SHORT_AND_FULL)
def test_killed_workers(full, tiny_run, tmp_path, tell):
    told = re.compile(r"WARNING: (train|valid) epoch \d of 2: a worker that reads data was killed; it is started again")
    settings, straight = ["batch_size=2", *SETTINGS[1:]], tmp_path / "straight"
    begin = time.monotonic()
    assert train(tiny_run, straight, *settings) == 0
    draw, kills, runs, seconds = random.Random(4), 0, 0, (time.monotonic() - begin) / 3
    while kills < (20 if full else 2):
        folder, runs = tmp_path / str(runs), runs + 1
        with folder.with_suffix(".kills").open("wb", 0) as marks:
            killed = partial(killing_workers, random.Random(draw.random()), seconds, marks.fileno())
            workers = f"num_workers={1 + runs % 2}"
            assert end(start(tiny_run, folder, killed, [*settings, workers])) == ENDED, printed(folder)
        count = folder.with_suffix(".kills").stat().st_size
        lines = [line for line in printed(folder).splitlines() if "worker" in line or "Traceback" in line]
        assert len(lines) == count and all(map(told.fullmatch, lines)), printed(folder)
        check_same(folder, straight)
        kills += count
    tell(f"{kills} workers killed at random in {runs} runs: one line each, the weights are the same bit for bit")


@pytest.mark.parametrize("full", SHORT_AND_FULL)
def test_sigterm(full, tiny_run, straight, tmp_path, tell):
    draw, saved, longest, number = random.Random(1), 0, 0.0, 0
    while saved < (20 if full else 1):
        number += 1
        folder = tmp_path / str(number)
        child = start(tiny_run, folder)
        while not (folder / checkpoint.CHECKPOINT).exists():
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.3))
        begin = time.monotonic()
        os.kill(child, signal.SIGTERM)
        code = end(child)
        longest = max(longest, time.monotonic() - begin)
        # When all is trained and saved, the command no longer catches the signal, and ends by it.
        at_its_end = code == -signal.SIGTERM and (folder / "2epoch.pth").exists()
        assert at_its_end or code in (ENDED, STOPPED), printed(folder)
        if code == STOPPED:
            saved += 1
            last = printed(folder).splitlines()[-1]
            where = "(in epoch 1|in epoch 2|all epochs and their averages)"  # the last one before the command ends
            assert re.match(f"espnet-diverse train: SIGTERM: saved {where}", last), last
        finish(tiny_run, folder, straight)
    tell(f"{saved} times SIGTERM: exit 75 within {longest:.1f} s, all continue bit for bit")
    assert longest < 30


@pytest.mark.parametrize("full", SHORT_AND_FULL)
def test_a_full_disk(full, tiny_run, straight, tmp_path, tell):
    size = (straight / checkpoint.CHECKPOINT).stat().st_size
    draw, points = random.Random(2), 0
    for save in range(1, 9) if full else (3,):
        for share in (0.0, 0.2, 0.5, 0.99) if full else (0.5,):
            folder = tmp_path / f"{save}-{share}"

            room = max(int(share * size * draw.uniform(0.9, 1)), 2**13)  # what is printed needs room too

            def fill(save=save, room=room):
                calls, write = iter(range(1, 100)), checkpoint.save

                def limited(*args, **options):
                    if next(calls) == save:
                        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
                    return write(*args, **options)

                checkpoint.save = run_state.checkpoint.save = limited

            code = end(start(tiny_run, folder, fill))
            if code != ENDED:  # a file of weights is smaller than the limit
                said = printed(folder)
                assert code == 1 and "Traceback" not in said, said
                assert "cannot be written (File too large): it takes " in said.splitlines()[-1]
                points += 1
            if save > 1:
                assert checkpoint.load_run(folder)[0]["model"]
            finish(tiny_run, folder, straight)
    tell(f"{points} saves without room: one line each, what was saved before loads, all continue bit for bit")
    assert points >= (20 if full else 1)


@pytest.mark.parametrize("full", SHORT_AND_FULL)
def test_a_second_start(full, tiny_run, tmp_path, capfd, tell):
    folder = tmp_path / "exp"
    child = start(tiny_run, folder)
    while not (folder / ".lock").exists() or not (folder / ".lock").stat().st_size:
        time.sleep(0.01)
    os.kill(child, signal.SIGSTOP)
    refused = 0
    for _ in range(20 if full else 1):
        assert train(tiny_run, folder, *SETTINGS) == 1
        refused += f"exp: process {child} on " in capfd.readouterr().err.splitlines()[-1]
    os.kill(child, signal.SIGCONT)
    assert end(child) == ENDED
    tell(f"{refused} second starts refused in one line")
    assert refused == (20 if full else 1)


@pytest.mark.parametrize("full", SHORT_AND_FULL)
@pytest.mark.parametrize("name", [checkpoint.CHECKPOINT, "valid.acc.ave.pth"])
def test_altered_files(name, full, straight, tiny_run, tmp_path, tell, capfd):
    draw, found = random.Random(3), 0
    folder = shutil.copytree(straight, tmp_path / "exp", symlinks=True)
    content = (folder / name).read_bytes()
    flips, cuts = (200, 100) if full else (20, 10)
    for number in range(flips + cuts):
        altered = bytearray(content)
        if number < flips:
            altered[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        else:
            del altered[draw.randrange(len(content)) :]
        (folder / name).write_bytes(altered)
        with pytest.raises(ModelError, match=name):
            checkpoint.load(folder / name)
        if name == checkpoint.CHECKPOINT:
            assert checkpoint.load_run(folder)[1].name == checkpoint.PREVIOUS
        found += 1
    tell(f"{name}: {flips} flipped bits and {cuts} truncations, {found} found before use")
    if name != checkpoint.CHECKPOINT:
        shutil.copytree(tiny_run.tokens_dir, folder / "tokens", dirs_exist_ok=True)
        arguments = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "decoded")]
        capfd.readouterr()
        assert main(["decode", str(folder), *arguments]) == 1
        assert f"{name}: the file is damaged" in capfd.readouterr().err.splitlines()[-1]
