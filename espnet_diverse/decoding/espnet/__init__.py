"""ESPnet's own searches, for nets without a batched one, and multitask models such as OWSM.

Read first: `espnet_beam.py`, `espnet_search.py`, `multitask.py`.
ESPnet's classes are imported through `upstream`.
"""
