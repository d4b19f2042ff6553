"""Kaldi data directories: reading, checking and writing their tables, without a Python object for each row.

Read first: `kaldi.py`, `tables.py`, `packed_table.py`; `faults.py`, `output_paths.py`.
Official releases are in `corpora`, vocabularies in `text`.
"""
