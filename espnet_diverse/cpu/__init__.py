"""Speed and memory on a CPU: kernels of matrix products, fast layers of a model, the allocator, caches of primitives.

Read first: `linear_kernels.py` (oneDNN or MKL), `fast_linear.py`, `allocator.py`.
It changes no result beyond rounding; the faster layers of training are in `training/loop/cpu_layers.py`.
"""
