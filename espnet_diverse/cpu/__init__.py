"""Speed and memory on a CPU: kernels of matrix products, fast layers of a loaded model, the allocator."""
