"""Data directories: decoded, rescored, classified, measured by perplexity."""
