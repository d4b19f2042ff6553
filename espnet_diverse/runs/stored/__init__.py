"""Checks of a stored checkpoint before anything of it is used.

`checkpoint_archive.py` checks the archive, `checkpoint_schema.py` its content by `schema.py`; begin with the second.
`runs/checkpoint.py` reads and writes checkpoints.
"""
