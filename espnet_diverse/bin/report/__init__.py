"""Commands that score, analyse and compare."""
