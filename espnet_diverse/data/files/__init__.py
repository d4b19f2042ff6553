"""Files that appear whole or not at all, locks, and errors of a full disk that name the file.

Read first: `atomic_files.py`, `locks.py`, `disk_space.py`.
Nothing here depends on the content of the files.
"""
