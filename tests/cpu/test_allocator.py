"""Freed memory is kept: a tensor of 40 MB that is made again costs no page faults, unless the user asked otherwise."""

import platform
import subprocess
import sys

import pytest

CODE = """
import resource, torch
from espnet_diverse.cpu.allocator import IN_TRAINING, keep_freed_memory
done = keep_freed_memory(IN_TRAINING) if {keep} else False
for number in range(40):  # until the heap has found its form
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(10 * 2**20)
print(done, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: bool, **environment: str) -> tuple[str, int]:
    command = [sys.executable, "-c", CODE.format(keep=keep)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    told, count = done.stdout.split()
    return told, int(count)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to")
def test_freed_memory_is_kept():
    assert faults(keep=False)[1] > 4000
    told, count = faults(keep=True)
    assert told == "True" and count < 100


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to")
def test_malloc_settings_of_the_user_are_kept():
    told, count = faults(keep=True, MALLOC_TRIM_THRESHOLD_="1000000")
    assert told == "False" and count > 4000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to")
def test_freed_memory_between_others_is_returned():
    code = (
        "from pathlib import Path\n"
        "from espnet_diverse.cpu.allocator import return_freed_memory\n"
        "def pages(): return int(Path('/proc/self/statm').read_text().split()[1])\n"
        "blocks = [bytes([1]) * 65536 for _ in range(1000)]\n"
        "del blocks[::2], blocks[:-1]\n"
        "before = pages()\n"
        "return_freed_memory()\n"
        "print(before - pages())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 10_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to")
@pytest.mark.parametrize(("variables", "done"), [({}, "True"), ({"MALLOC_ARENA_MAX": "3"}, "False")])
def test_threads_share_one_heap(variables, done):
    code = (
        "import ctypes, threading\n"
        "from espnet_diverse.cpu.allocator import share_freed_memory\n"
        "print(share_freed_memory())\n"
        "libc, both = ctypes.CDLL(None), threading.Barrier(2)\n"
        "libc.malloc.restype = ctypes.c_void_p\n"
        "def take():\n"
        "    libc.malloc(10_000)\n"
        "    both.wait()\n"
        "threads = [threading.Thread(target=take) for _ in range(2)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "libc.malloc_stats()\n"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    assert found.stdout == f"{done}\n" and (found.stderr.count("Arena") == 1) == (done == "True")
