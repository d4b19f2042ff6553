"""Methods that are not attentions: FlowSeq. Each has a folder of its own, and nothing else depends on it.

Read first: `flowseq/decoder.py`, `flowseq/model.py`, `flowseq/one_pass.py`.
Only the tables of nets and searches import it.
"""
