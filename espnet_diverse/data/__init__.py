"""Kaldi data directories: tables, read without an object for each row, and what is done with them.

Read first: `kaldi.py`, `tables.py`, `packed_table.py`.
It does not know official releases, which are in `corpora`, or vocabularies, which are in `text`.
"""
