"""A local web page: transcribe a recording or translate a text, and plot the attention heads.

Read first: `server.py`, `task_services.py`, `live.py`.
It serves this machine alone.
"""
