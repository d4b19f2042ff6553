"""Data of a training: what each task reads, statistics, batches, the processes that read them.

Read first: `run_data.py`, `batches.py`, `row_dataset.py`.
Tables are read in `data`, audio in `audio`.
"""
