"""Head selection: heads of each language or domain, from a shared pool.

Read first: `head_selection.py`, `learned_selection.py`, `head_gather.py`.
It does not know names of languages, which are in `runs/condition_names.py`.
"""
