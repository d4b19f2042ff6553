"""Metrics of hypotheses against references, with confidence intervals and significance tests."""
