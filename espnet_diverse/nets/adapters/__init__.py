"""Adapters: what is added to a trained model and trained alone, for all samples or for each language or domain.

`bottleneck.py` has small residual nets after every layer, which nets insert when they are built; `low_rank.py` products
of two small matrices beside linear maps, which are added to any model that was built.
The rows of parameters that samples choose are in `nets/condition_rows.py`.
"""
