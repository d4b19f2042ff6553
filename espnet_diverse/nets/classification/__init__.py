"""Classification of text: a net for sentences, one for long texts, their model with the loss, and pretraining.

Read first: `sentence_classifier.py`, `attention/self_attentive_pooling.py`.
Its tasks are in `runs/tasks.py`.
"""
