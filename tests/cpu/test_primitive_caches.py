import os
import subprocess
import sys

import pytest

from espnet_diverse.cpu.primitive_caches import CAPACITY, VARIABLES, primitive_limits

CODE = """
import torch
from references.held import held
convolution = torch.nn.Conv2d(1, 8, 3, 2)
with torch.inference_mode():
    convolution(torch.ones(1, 1, 2000, 80))
    before = held().megabytes
    for length in range(200, 800):
        convolution(torch.ones(1, 1, length, 80))
print(held().megabytes - before)
"""


def growth(**limits: str) -> float:
    """Megabytes that a process grows by over convolutions of 600 lengths."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", **limits}
    command = [sys.executable, "-c", CODE]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_number_of_shapes(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert growth(**primitive_limits()) < 0.5 * growth()


def test_values_of_the_user_are_kept(monkeypatch):
    monkeypatch.setenv(VARIABLES[0], "7")
    monkeypatch.delenv(VARIABLES[1], raising=False)
    assert primitive_limits() == {VARIABLES[1]: str(CAPACITY)}
