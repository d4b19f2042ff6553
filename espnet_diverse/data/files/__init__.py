"""Files that appear whole or not at all, locks, journals, and targets that may be replaced."""
