"""Training runs: statistics, training, stopping and resumption, with ESPnet's tasks and files and our trainer.

Read first: `pipeline.py` (the stages, for Python and the commands), `stages.py` (what ESPnet computes in two of them),
`loop/trainer.py`.
It does not load models for use, see `runs`; only `bin` and `learning` import it.
"""
