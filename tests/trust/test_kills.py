"""Proofs that a command that was killed, or found no room, gives the same result when it is given again."""

import itertools
import shutil
import signal
from functools import partial

import pytest
from references.killed_steps import DONE, FAILED, in_fork, with_kill, with_room
from torch import nn

from espnet_diverse.data.files.targets import check_prepared
from espnet_diverse.packing.adoption import adopt
from espnet_diverse.packing.run_files import write_model
from espnet_diverse.runs.config import merge

TOKENS = ["<blank>", "<unk>", "a", "b", "<sos/eos>"]


def content(folder):
    """Bytes by path of all files below a folder, and the folders in it."""
    return {path.relative_to(folder): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def kills_and_refusals(function, output_dir, sizes):
    """Numbers of kills, one before each step that changes the parent of `output_dir`, and of calls without room.

    After each the function is called again, and nothing differs from what it writes without them.

    Args:
        function: Writes `output_dir`, which is then all that its parent has.
        output_dir: A folder.
        sizes: Numbers of bytes of a file that there is room for.
    """
    home = output_dir.parent
    assert in_fork(function) == DONE
    expected = content(home)

    def ends(first, code, is_new):
        """Whether the first of two calls ends so; otherwise it is done."""
        if is_new:
            shutil.rmtree(output_dir)
        if (found := first()) == DONE:
            return False
        assert found == code and in_fork(function) == DONE
        assert content(home) == expected
        return True

    kills = refusals = 0
    for is_new in (True, False):  # and in the place of what was written before
        for step in itertools.count(1):
            if not ends(partial(with_kill, function, step, home), -signal.SIGKILL, is_new):
                break
            kills += 1
        refusals += sum(ends(partial(with_room, function, size), FAILED, is_new) for size in sizes)
    return kills, refusals


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


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

    kills, refusals = kills_and_refusals(write, home / "new", (0, 60, 1000))
    assert kills > 40 and refusals == 6


@pytest.mark.trust
def test_adopt(tiny_run, home):
    kills, refusals = kills_and_refusals(
        lambda: adopt(tiny_run.model_dir, home / "new", merge([])), home / "new", (0, 10_000)
    )
    assert kills > 20 and refusals == 4
