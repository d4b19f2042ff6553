"""Commands that prepare, check and export data."""
