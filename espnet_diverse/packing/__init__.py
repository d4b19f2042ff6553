"""Models as files to share: packed models with a model card, pruning, adoption, ONNX.

Read first: `pack.py`, `archive.py` (the format), `onnx_export.py`.
Weights and configurations are read by `runs`.
"""
