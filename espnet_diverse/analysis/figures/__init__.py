"""Figures of the measures, and of attention maps."""
