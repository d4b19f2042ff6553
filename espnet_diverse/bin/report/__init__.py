"""Commands that score, analyse, draw and compare.

Read first: `score.py`, `analyse.py`, `figure.py`.
Metrics are in `scoring`, measures and figures in `analysis`.
"""
