"""Frontends with pretrained encoders of text and speech, read without running code of a model."""
