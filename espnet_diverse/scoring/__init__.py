"""Metrics of hypotheses against references, with confidence intervals and significance tests.

Read first: `evaluate.py`, `error_rate.py`, `bleu.py`.
It loads no model, except the encoder of BERTScore.
"""
