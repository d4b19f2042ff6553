"""A trained model on disk: configuration, weights, digests, tasks, names of conditions.

Read first: `tasks.py` (build and load), `config.py` (merge, load), `checkpoint.py` (weights), `packed/archive.py`.
Training is elsewhere: `training/loop/tasks.py` adds the trainer to the tasks here.
"""
