"""Checks of the configuration of a training, and the list of its options.

Read first: `early_check.py`, `number_checks.py`, `option_list.py`.
Fragments are merged in `runs/config.py`, keys and classes checked in `runs/config_checks.py`.
"""
