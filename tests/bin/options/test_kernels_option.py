import argparse
import os

import pytest

from espnet_diverse.bin.main import COMMANDS, command_parser, main
from espnet_diverse.bin.options.kernels_option import take_kernels
from espnet_diverse.cpu import linear_kernels
from espnet_diverse.cpu.machine import KERNELS_VARIABLE


def test_commands_that_run_a_model_have_the_option():
    with_device, with_kernels = (
        {name for name in COMMANDS if option in command_parser(name)[1]._option_string_actions}
        for option in ("--device", "--kernels")
    )
    assert with_kernels == with_device | {"train"} and len(with_kernels) > 10


@pytest.mark.parametrize("asked", ["onednn", "mkl"])
def test_the_option_goes_before_the_environment(tiny_run, tmp_path, monkeypatch, asked):
    monkeypatch.setenv(KERNELS_VARIABLE, "mkl" if asked == "onednn" else "onednn")
    options = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "out"), "--kernels", asked]
    assert main(["decode", str(tiny_run.model_dir), *options]) == 0
    assert os.environ[KERNELS_VARIABLE] == asked and set(linear_kernels.choice().values()) == {asked}


def test_without_the_option_the_environment_stays(monkeypatch):
    monkeypatch.setenv(KERNELS_VARIABLE, "mkl")
    take_kernels(argparse.Namespace(kernels=None))
    take_kernels(argparse.Namespace())
    assert os.environ[KERNELS_VARIABLE] == "mkl"


def test_another_library_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--kernels", "blas"])
    assert "argument --kernels: invalid choice: 'blas'" in capsys.readouterr().err
