"""Data directories: decoded in batches and by several processes, rescored, classified, perplexity.

Read first: `decode_dir.py`, `utterances.py`, `results.py`.
It searches nothing itself; see `decoding/search`.
"""
