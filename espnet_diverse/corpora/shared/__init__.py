"""What the readers of several corpora share."""
