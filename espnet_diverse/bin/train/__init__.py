"""Commands that train models or make them from others, and the plan of a recipe.

Read first: `train.py`, `plan.py`, `average.py`.
The loop is in `training/loop/trainer.py`.
"""
