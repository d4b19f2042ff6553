"""A file of the user with the name of a library is named, instead of a traceback in that library."""

import os
import subprocess
import sys

import pytest

from espnet_diverse.bin.options.shadowed import shadowing_file


@pytest.mark.parametrize("name", ["torch.py", "yaml.py", "json.py"])
def test_the_file_is_named(name, tiny_run, tmp_path):
    (tmp_path / name).write_text("x = 1\n")
    command = [sys.executable, "-m", "espnet_diverse", "transcribe", str(tiny_run.model_dir), "talk.wav"]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 1 and str(tmp_path / name) in done.stderr and "Traceback" not in done.stderr


def test_other_errors_are_not_of_a_shadow():
    with pytest.raises(ImportError) as caught:
        from espnet_diverse.errors import no_such_name  # noqa: F401
    assert shadowing_file(caught.value) is None
    with pytest.raises(AttributeError) as caught:
        _ = sys.no_such_name
    assert shadowing_file(caught.value) is None
