"""The public name of `text/vocabulary.py`."""

from espnet_diverse.text.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
