"""Checks of the configuration of a training, and the list of its options."""
