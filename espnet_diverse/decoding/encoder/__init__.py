"""Encoder outputs that do not depend on the batch, of recordings of any length."""
