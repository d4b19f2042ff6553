"""Kaldi data directories: reading, checking and writing their tables, without a Python object for each row.

Read first: `kaldi.py`, `tables.py`, `packed_table.py`.
It does not know official releases, which are in `corpora`, or vocabularies, which are in `text`.
"""
