"""Counts how often the host waits for a GPU, on a machine without one: `make gpu-check`.

Attentions, training steps and searches run on tensors that claim to be on a GPU (`device.py`). An operation with
tensors of both devices, a wait of our code that `allowed.py` does not have, one that comes more often than it says, and
an entry that nothing needs are errors; the exit status is 1. ESPnet's waits are counted beside ours.

    python -m gpu_check           # with `tests` in PYTHONPATH
    python -m gpu_check selection # cases whose name contains a word
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
_LIBRARY = "NO_DRIVER"


def main(words: list[str]) -> int:
    if _LIBRARY not in os.environ:
        return with_libraries(["-m", "gpu_check", *words])
    from gpu_check.cases import run

    return run(words)


def with_libraries(command: list[str]) -> int:
    """Run Python with a command and two libraries that stand for a driver; return the exit status."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or sys.platform != "linux":
        print("gpu-check: skipped, as it needs a C compiler on Linux; install gcc")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "no_driver.so")
        for source, target in (("no_driver.c", library), ("libcuda.c", Path(folder, "libcuda.so.1"))):
            subprocess.run([compiler, "-shared", "-fPIC", "-o", target, HERE / source], check=True)
        paths = ":".join(filter(None, (folder, os.environ.get("LD_LIBRARY_PATH"))))
        environment = {"LD_LIBRARY_PATH": paths, "LD_PRELOAD": str(library), _LIBRARY: str(library)}
        return subprocess.run([sys.executable, *command], env=os.environ | environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
