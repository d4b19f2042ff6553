"""Measures of heads, clusters, queries and predictions, each over a whole data directory.

Read first: `redundancy.py`, `head_ablation.py`, `clusters.py`.
It draws nothing; see `analysis/figures`.
"""
