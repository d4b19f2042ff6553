"""Frontends with pretrained encoders of text and speech, read as safetensors.

Read first: `bert.py`, `speech_frontend.py`, `pretrained_config.py` (allowed architectures).
No code of a model is run; files are fetched by `untrusted/hub.py`.
"""
