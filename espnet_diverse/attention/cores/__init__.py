"""Attention cores, one file a method, with what only one or two of them need."""
