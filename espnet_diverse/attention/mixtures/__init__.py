"""The mixture of Gaussians of SMA and SDMA: posteriors, noise, auxiliary losses, statistics.

Read first: `mixture.py`, `cluster_losses.py`, `noise.py`.
It has no equations; see `functional/mixture.py` and `functional/information.py`.
"""
