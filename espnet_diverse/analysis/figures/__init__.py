"""Figures of the measures, and of the attention maps of one utterance.

Read first: `heads.py` (attention maps), `plots.py`, `positions.py` (axes).
It measures nothing; see `analysis/measures`.
"""
