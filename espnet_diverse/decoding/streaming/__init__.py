"""Recognition while somebody speaks."""
