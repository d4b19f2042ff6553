"""Adapters: parts that are added to a trained model and trained alone, for all samples or for each language or domain.

`bottleneck.py` has small residual nets after every layer, which nets insert when they are built; `low_rank.py` has
products of two small matrices, which are added to the linear maps of any model that was built.
The rows of parameters that samples choose are in `nets/condition_rows.py`.
"""
