"""Encoder outputs that do not depend on the batch, of recordings of any length, in any precision.

Read first: `encoding.py`, `long_audio.py`, `precision.py`.
Fast layers of a CPU are in `cpu`.
"""
