"""Packed models, read without running any of them, and the directories of models made from runs.

Read first: `archive.py` (the format), `run_files.py`. `whisper.py` makes a run of a Whisper of Hugging Face's layout.
Models are packed in `packing`.
"""
