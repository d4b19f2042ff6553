"""The training loop: epochs, updates, and what may go wrong in them.

Read first: `trainer.py`, `tasks.py` (the trainer's tasks), `non_finite.py`.
It saves nothing itself; see `training/checkpoints`.
"""
