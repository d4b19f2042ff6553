"""Whisper's encoder, decoder and features as nets of ESPnet, with a choice of attention.

Radford et al. 2023, "Robust speech recognition via large-scale weak supervision". Both nets are ESPnet's transformer
with other inputs: convolutions with sinusoids before the encoder, learned positions and a prompt before the decoder.
`runs/packed/whisper.py` makes such a model from the files of a trained one.
"""
