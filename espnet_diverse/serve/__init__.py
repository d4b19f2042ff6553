"""A server of models: OpenAI's protocol of transcription and translation, and text while somebody speaks.

Read first: `application.py`, `transcriptions.py`, `batches.py`.
The page of `espnet-diverse demo` (`demo/`) is another application of the same server.
"""
