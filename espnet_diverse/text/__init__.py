"""Vocabularies, tokenizers and their training."""
