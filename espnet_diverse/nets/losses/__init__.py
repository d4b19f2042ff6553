"""Losses of the models: the losses of ESPnet's tasks, computed faster, and the consistency of two passes.

The losses that attention modules collect are not here: `scope.py` and `nets/models.py` add them up.
`label_smoothing.py` has the loss of attention decoders; `consistency.py` doubles batches and compares their halves, and
is the place to begin.
"""
