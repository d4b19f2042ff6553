"""Methods that are not attentions: FlowSeq, a variational autoencoder of text. Each has a folder of its own.

Read first: `flowseq/decoder.py`, `flowseq/model.py`, `vae/model.py`.
Only the tables of nets, searches and what uses their models import them.
"""
