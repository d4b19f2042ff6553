"""Classification of sentences: the net, and its model with the loss.

Read first: `sentence_classifier.py`, `attention/self_attentive_pooling.py`.
Its task is in `runs/tasks.py`.
"""
