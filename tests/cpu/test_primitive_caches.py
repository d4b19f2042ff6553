import os
import subprocess
import sys

import pytest

from espnet_diverse.cpu.primitive_caches import LIMITS, primitive_limits
from espnet_diverse.functional.linear import AVAILABLE

CODE = """
import torch
from references.held import held
from espnet_diverse.functional.linear import arranged, product
weight = arranged(torch.ones(16, 16))
with torch.inference_mode():
    product(torch.ones(1000, 16), weight)
    before = held().megabytes
    for rows in range(1, 500):
        product(torch.ones(rows, 16), weight)
print(held().megabytes - before)
"""


def growth(**limits: str) -> float:
    """Megabytes that a process grows by over products of 499 numbers of rows."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", **limits}
    command = [sys.executable, "-c", CODE]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


@pytest.mark.skipif(not AVAILABLE or sys.platform != "linux", reason="needs oneDNN, and /proc for the memory")
def test_memory_does_not_grow_with_the_number_of_shapes(monkeypatch):
    for name in LIMITS:
        monkeypatch.delenv(name, raising=False)
    without, limited = growth(), growth(**primitive_limits())
    assert without > 50 and limited < 0.4 * without


def test_values_of_the_user_are_kept(monkeypatch):
    first, second = LIMITS
    monkeypatch.setenv(first, "7")
    monkeypatch.delenv(second, raising=False)
    assert primitive_limits() == {second: LIMITS[second]}
