"""Kaldi data directories: reading, writing, checking, formatting and combining."""
