"""ESPnet's scorer of n-gram language models; its import needs the package kenlm."""

from espnet2.legacy.nets.scorers.ngram import NgramFullScorer

__all__ = ["NgramFullScorer"]
