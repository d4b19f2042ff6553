"""Contests: several methods trained at equal budget, decoded, scored, compared and reported.

Read first: `settings.py` (methods, seeds and budget), `runs.py` (a training run, as commands), `run_queue.py` (the runs
that are made, several at a time), `report.py`.
Runs are commands of this package, or recipes, in processes of their own: nothing here trains or decodes.
"""
