"""Batched search: beams, CTC prefixes, language models, hotwords, sampling."""
