"""States of a training: saved, restored, compared, averaged, and the start from another model.

Read first: `run_state.py`, `resumption.py`, `averaging.py`.
The format of weights is in `runs/checkpoint.py`.
"""
