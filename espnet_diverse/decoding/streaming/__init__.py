"""Streaming recognition, block by block or segment by segment.

Read first: `block_search.py`, `stream_encoder.py`, `espnet_streaming.py`.
Utterances of a stream are found in `transcription/endpointing.py`.
"""
