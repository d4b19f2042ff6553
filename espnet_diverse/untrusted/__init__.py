"""Safe reading of files from other people: YAML, configurations of models, archives, models by name.

Read first: `foreign_config.py` (what a model may choose), `foreign_yaml.py`, `hub.py`.
Weights are read in `runs/checkpoint.py`, packed models in `runs/packed/archive.py`.
"""
