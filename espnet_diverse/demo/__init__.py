"""A local web page: transcribe a recording or translate a text, and plot the attention heads."""
