"""Classification of text: a net for sentences, one for long texts, and their model with the loss.

Read first: `sentence_classifier.py`, `attention/self_attentive_pooling.py`.
Its task is in `runs/tasks.py`.
"""
