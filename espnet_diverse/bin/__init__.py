"""The command line: one module per command, imported when it is called.

Read first: `main.py` (the table of commands), `options/options.py`, `train/train.py`.
It computes nothing itself; every command calls another subpackage.
"""
