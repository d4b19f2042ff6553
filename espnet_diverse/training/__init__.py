"""Training runs: statistics, training, stopping and resumption, with ESPnet's tasks and files and our trainer.

Read first: `pipeline.py` and `stages.py` (statistics, training), `loop/trainer.py`, `checkpoints/run_state.py`.
It does not load models for use, see `runs`; only `bin` and `learning` import it.
"""
