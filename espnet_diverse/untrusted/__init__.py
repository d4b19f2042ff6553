"""Safe reading of files from other people: YAML, configurations of models, models by name.

Read first: `foreign_config.py` (what a model may choose), `foreign_yaml.py`, `hub.py`.
Weights are read in `runs/checkpoint.py`, archives in `packing/archive.py`.
"""
