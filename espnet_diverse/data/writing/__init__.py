"""Data directories as training reads them: formatted, combined, augmented, exported.

Read first: `formatting.py`, `format_audio.py`, `combining.py`.
Corpora are read in `corpora`.
"""
