"""Estimates of a training on a device that is not here: hours, memory and disk.

Read first: `trial.py` (a model that computes single batches), `estimate.py` (what follows for a training),
`devices.py` (published figures of GPUs). It trains nothing.
"""
