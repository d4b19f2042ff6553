import os

import pytest

from espnet_diverse.bin.main import COMMANDS, command_parser, main
from espnet_diverse.bin.use import decode
from espnet_diverse.cpu import linear_kernels
from espnet_diverse.cpu.machine import KERNELS_VARIABLE


def test_commands_that_run_a_model_have_the_option():
    with_device, with_kernels = (
        {name for name in COMMANDS if option in command_parser(name)[1]._option_string_actions}
        for option in ("--device", "--kernels")
    )
    assert with_kernels == with_device | {"train"} and len(with_kernels) > 10


@pytest.mark.parametrize("asked", ["onednn", "mkl", None])
def test_the_option_goes_before_the_environment_and_ends_with_the_command(tiny_run, tmp_path, monkeypatch, asked):
    of_user = "mkl" if asked == "onednn" else "onednn"
    monkeypatch.setenv(KERNELS_VARIABLE, of_user)
    seen, run = [], decode.run

    def watched(args):
        code = run(args)
        seen.append((os.environ[KERNELS_VARIABLE], set(linear_kernels.choice().values())))
        return code

    monkeypatch.setattr(decode, "run", watched)
    options = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "out")]
    assert main(["decode", str(tiny_run.model_dir), *options, *(["--kernels", asked] if asked else [])]) == 0
    used = asked or of_user
    assert seen == [(used, {used})] and os.environ[KERNELS_VARIABLE] == of_user


def test_another_library_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--kernels", "blas"])
    assert "argument --kernels: invalid choice: 'blas'" in capsys.readouterr().err
