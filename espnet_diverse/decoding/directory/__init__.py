"""Decoding, rescoring, classification and perplexity of data directories, in batches and by several processes.

Read first: `decode_dir.py`, `utterances.py`, `results.py`.
It searches nothing itself; see `decoding/search`.
"""
