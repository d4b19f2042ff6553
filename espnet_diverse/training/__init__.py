"""Training runs that resume, stop and refuse: ESPnet's tasks and files with our trainer.

Read first: `stages.py` (statistics, training), `loop/trainer.py`, `checkpoints/run_state.py`.
It does not load models for use, see `runs`; only `bin` imports it.
"""
