"""Head selection: heads for each language or domain, from a shared pool."""
