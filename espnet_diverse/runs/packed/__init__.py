"""Packed models, read without running any of them, and the directories of models made from runs.

Read first: `archive.py` (the format), `run_files.py`.
Models are packed in `packing`.
"""
