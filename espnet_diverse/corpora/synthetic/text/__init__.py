"""Synthetic corpora of text, with the same function `make` as those of speech."""
