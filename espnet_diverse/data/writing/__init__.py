"""Data directories as training reads them: formatted, combined, augmented, exported."""
