"""Commands that train models, or make them from others."""
