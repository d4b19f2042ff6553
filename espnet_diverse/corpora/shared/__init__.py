"""What several corpora share: downloads, directions of translation, aligned text, tables of releases."""
