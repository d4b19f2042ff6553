"""Batched search with a trained model: utterances in, texts out.

Read first: `predictor.py` (a loaded model), `options.py`, `build_search.py`, `search/beam_search.py`.
Recordings of any length are in `transcription`, Python's interface in `inference.py`.
"""
