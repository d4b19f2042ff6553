"""Batched search: beam, prefix tree, CTC, language model, hotwords, sampling, greedy CTC.

Read first: `beam_search.py`, `prefix_tree.py`, `one_pass.py`.
It reads only files of hotwords and n-grams; data directories are read in `decoding/directory`.
"""
