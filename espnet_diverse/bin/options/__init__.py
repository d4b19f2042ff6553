"""Options that several commands share, and completion in the shell.

Read first: `options.py`, `kernels_option.py`, `cluster_option.py`.
Options of one command stand in its own module.
"""
