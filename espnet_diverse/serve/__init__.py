"""A server of models: OpenAI's protocol of transcription and translation, and streaming recognition.

Read first: `application.py`, `transcriptions.py`, `batches.py`.
The page of `espnet-diverse demo` (`demo/`) is another application of the same server.
"""
