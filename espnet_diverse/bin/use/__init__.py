"""Commands that use a model: decode, transcribe, translate, rescore, classify, serve.

Read first: `decode.py`, `transcribe.py`, `translate.py`.
Searches are in `decoding`, recordings of any length in `transcription`.
"""
