"""Checks of data directories, and mended copies."""
