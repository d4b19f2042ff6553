"""Training in several processes, on one machine or on many, by torch.distributed.

Read first: `processes.py`, `elastic.py`, `rendezvous.py`.
Work over utterances is spread by `cluster`.
"""
