"""Windows for the encoder heads of a trained model, chosen by its loss on a data directory.

Read first: `choice.py` (what is measured, in which order), `narrowing.py` (the greedy search), `page.py` (the report).
It writes no model: `packing/adoption.py` does, with the patterns that are chosen here.
"""
