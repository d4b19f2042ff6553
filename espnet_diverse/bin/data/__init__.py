"""Commands that prepare, check, combine and export data.

Read first: `prepare.py`, `validate.py`, `tokens.py`.
Corpora are read in `corpora`, checks are made in `data/checks`.
"""
