"""Methods that are not attentions: FlowSeq, a variational autoencoder of text. Each has its own folder.

Read first: `flowseq/decoder.py`, `flowseq/model.py`, `vae/model.py`.
Imported by the tables of nets and searches, and by the commands for their models.
"""
