"""Proofs that what was killed, or found no room, gives the same files when it is called again, and leaves no others."""

import json
import os
import random
import shutil
import signal
import sys
import time
from functools import partial

from references.killed_steps import DONE, FAILED, in_fork, started, steps, with_kill, with_room


def content(folder):
    """Bytes by path of all files below a folder but logs, and the folders; of decode.json what is not measured.

    PyTorch makes a folder for its compiler, once, where temporary files are.
    """
    paths = (path for path in folder.rglob("*") if path.suffix != ".log" and not path.match("torchinductor_*"))
    found = {path.relative_to(folder): path.is_file() and path.read_bytes() for path in paths}
    for path in found:
        if path.name == "decode.json":
            numbers = json.loads(found[path])
            found[path] = {name: number for name, number in numbers.items() if "_" not in name}
    return found


def check_same(found, expected):
    """Check that two folders have the same content; otherwise the paths of what they do not share are named."""
    differing = [str(path) for path in found.keys() | expected.keys() if found.get(path) != expected.get(path)]
    assert not differing, sorted(differing)


def emptied(folder):
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def kills_and_refusals(function, home, sizes, most=10**9, content=content):
    """Numbers of kills, one before each step that changes `home`, and of calls without room.

    After each the function is called again, and nothing differs from what it writes without them.

    Args:
        function: Writes something in `home`, which is then all that is there.
        home: A folder.
        sizes: Numbers of bytes of a file that there is room for.
        most: Maximum number of kills where nothing is there before, and of those in the place of what was written; if
            there are more steps, they are evenly spaced.
        content: Returns what must not differ.
    """
    counts = steps(function, home), steps(function, home)
    expected = content(home)

    def ends(first, code, is_new):
        """Whether the first of two calls ends so; otherwise it is done."""
        if is_new:
            emptied(home)
        if (found := first()) == DONE:
            return False
        assert found == code and in_fork(function) == DONE
        check_same(content(home), expected)
        return True

    kills = refusals = 0
    for is_new, count in zip((True, False), counts, strict=True):
        stride = max(1, -(-count // most))
        for step in range((stride + 1) // 2, count + 1, stride):
            kills += ends(partial(with_kill, function, step, home), -signal.SIGKILL, is_new)
        refusals += sum(ends(partial(with_room, function, size), FAILED, is_new) for size in sizes)
    return kills, refusals


def kills_at_random(function, home, number):
    """Kill a function so many times at random, again and again until it is done; then all is as without kills."""
    emptied(home)
    begin = time.monotonic()
    assert in_fork(function) == DONE
    seconds, expected = time.monotonic() - begin, content(home)
    draw, killed = random.Random(5), 0
    while killed < number:
        if draw.random() < 0.5:  # otherwise in the place of what was written before
            emptied(home)
        code = -signal.SIGKILL
        while code == -signal.SIGKILL and killed < number:
            child = started(function)
            time.sleep(draw.uniform(0, seconds))
            os.kill(child, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            killed += code == -signal.SIGKILL
        assert code == DONE or in_fork(function) == DONE
        check_same(content(home), expected)


def kills_beside_another(function, home, number, content=content, processes=2):
    """Start a function in some processes and kill one at random, so many times; another call ends as without kills."""
    emptied(home)
    begin = time.monotonic()
    assert in_fork(function) == DONE
    seconds, expected, draw = time.monotonic() - begin, content(home), random.Random(6)
    for _ in range(number):
        emptied(home)
        first, *others = [started(function) for _ in range(processes)]
        time.sleep(draw.uniform(0, seconds))
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        codes = {os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) for other in others}
        assert codes <= {DONE, FAILED}  # where another one has locked the folder
        assert in_fork(function) == DONE
        check_same(content(home), expected)


def errors_without_room(function, command):
    """The lines of errors that a function which gives a command writes where files have no room."""
    read, write = os.pipe()  # a file would have no room either

    def give():
        with os.fdopen(write, "w") as sys.stderr:
            function()

    assert with_room(give, 0) == FAILED
    os.close(write)
    with os.fdopen(read) as pipe:
        return [line for line in pipe if line.startswith(f"espnet-diverse {command}: error: ")]
