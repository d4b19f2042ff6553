"""Classification of sentences: the net, and the model that ESPnet's trainer sees.

Read first: `sentence_classifier.py`, `attention/self_attentive_pooling.py`.
Its task is in `runs/tasks.py`.
"""
