"""Checks of data directories that report all faults in one pass, and corrected copies.

Read first: `validate.py`, `recording_faults.py`, `plausibility.py`.
Originals are never changed.
"""
