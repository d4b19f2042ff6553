"""Paths on the command line: what is not there is refused before PyTorch is imported."""

import subprocess
import sys
from argparse import Namespace

import pytest

from espnet_diverse.bin.options.paths import check_paths
from espnet_diverse.errors import DataError

CODE = """
import sys
from espnet_diverse.bin.main import main
code = main(sys.argv[1:])
sys.exit(9 if {"torch", "espnet2"} & sys.modules.keys() else code)
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["transcribe", "exp/onw", "x.wav"], "exp/onw: no such model; give the directory of a run, a packed model, or"),
        (["transcribe", "exp/m", "x.wav", "--lm", "lm"], "lm: no such model; give the directory of a run"),
        (["decode", "exp/m", "--data_dir", "tset", "--output_dir", "o"], "--data_dir tset: there is no such directory"),
    ],
)
def test_what_is_not_there_is_refused_at_once(tmp_path, arguments, said):
    (tmp_path / "exp" / "m").mkdir(parents=True)
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"error: {said}" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_data_directory_that_is_there_is_no_error(tmp_path):
    check_paths(Namespace(data_dir=tmp_path))
    with pytest.raises(DataError, match=f"^--data_dir {tmp_path}/x: there is no such directory; correct the path, or"):
        check_paths(Namespace(data_dir=tmp_path / "x"))
