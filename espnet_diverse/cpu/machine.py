"""The CPU of the machine that a program runs on."""

import platform
from functools import lru_cache

from espnet_diverse import portable

KERNELS_VARIABLE = "ESPNET_DIVERSE_KERNELS"
"""Environment variable with one of `KERNELS`; see `cpu.linear_kernels`."""
KERNELS = ("auto", "onednn", "mkl")
"""Library of the matrix products of linear layers: the faster one (the default), or this one in all places."""
_KIND = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU part")  # `model` and `model name`


@lru_cache
def cpu_model() -> str:
    """Name of the CPU, such as "AMD EPYC 7763", or of its architecture where the system reports no more."""
    names = (value for key, value in _cpu_info() if key == "model name")
    return next(names, "") or platform.processor() or platform.machine()


@lru_cache
def cpu_kind() -> str:
    """Text that is the same on all machines whose CPUs are of one model and offer the same instructions."""
    kind = sorted({f"{key}: {value}" for key, value in _cpu_info() if key.startswith(_KIND)})
    return "\n".join([platform.machine(), *(kind or [platform.processor()])])


def _cpu_info() -> list[tuple[str, str]]:
    """Keys and values of the CPUs, as Linux has them; elsewhere none."""
    file = portable.PROC / "cpuinfo"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)]
