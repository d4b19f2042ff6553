"""The cores, one file a method: queries, keys and values in, context out.

Read first: `softmax.py`, `sdma.py`, `window.py`.
It has no equations, which are in `functional`, and no projections, which are in `attention/head_projections.py`.
"""
