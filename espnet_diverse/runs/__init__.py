"""A trained model on disk: configuration, weights, digests, tasks, names of conditions."""
