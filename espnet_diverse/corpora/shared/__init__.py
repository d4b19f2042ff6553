"""Helpers of several corpora: downloads, releases, tables, parallel text, directions of translation."""
