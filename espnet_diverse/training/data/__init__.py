"""Data of a training: statistics, batches, and the processes that read them."""
