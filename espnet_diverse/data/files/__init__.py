"""Files that appear whole or not at all, locks, journals, and targets that a command may replace.

Read first: `atomic_files.py`, `locks.py`, `targets.py`.
Nothing here depends on the content of the files.
"""
