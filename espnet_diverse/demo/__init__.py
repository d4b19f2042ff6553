"""A local web page: transcribe a recording or translate a text, and plot the attention heads.

Read first: `routes.py`, `task_services.py`; the server is `serve/`.
The page is for this machine alone.
"""
