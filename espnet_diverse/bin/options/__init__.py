"""Options that several commands share, and completion in the shell.

Read first: `arguments.py`, `options.py`, `cluster_option.py`.
Options of one command stand in its own module.
"""
