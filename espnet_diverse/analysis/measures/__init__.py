"""Measures of heads, clusters, queries and predictions."""
