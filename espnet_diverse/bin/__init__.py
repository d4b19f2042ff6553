"""The command line: one module per command, imported when it is called.

Read first: `main.py` (the table of commands), `options/options.py`, `train/train.py`.
It computes nothing itself; every command calls another subpackage.
"""

import sys

if sys.argv[:1] == ["-m"]:  # Python looks for a module of this package to run it; on its own it would do nothing
    from espnet_diverse.bin.main import run_module

    sys.exit(run_module(sys.orig_argv[len(sys.orig_argv) - len(sys.argv)].removeprefix("-m"), sys.argv[1:]))
