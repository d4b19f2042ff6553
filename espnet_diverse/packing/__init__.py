"""Models as files to share: packed models with a model card, pruning, adoption, ONNX.

Read first: `pack.py`, `adoption.py`, `onnx_export.py`.
The format of packed models, and what reads them, is in `runs/packed`.
"""
