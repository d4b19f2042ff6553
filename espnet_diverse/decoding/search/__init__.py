"""Batched search: beam, prefix tree, CTC, language model, hotwords, sampling, greedy CTC.

Read first: `beam_search.py`, `prefix_tree.py`, `build_search.py`.
It reads no files but those of hotwords and n-grams; see `decoding/directory`.
"""
