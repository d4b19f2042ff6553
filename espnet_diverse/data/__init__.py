"""Kaldi data directories: read, write, check, format and combine. Knows no nets."""
