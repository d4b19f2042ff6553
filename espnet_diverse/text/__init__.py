"""Vocabularies: tokens and tokenizers of texts, and the training of sentencepiece.

Read first: `vocabulary.py`, `pretrained_tokenizer.py`, `sentencepiece_training.py`.
It does not read data directories, which are in `data`.
"""
