"""ESPnet's own searches, for nets without a batched one, and multitask models."""
