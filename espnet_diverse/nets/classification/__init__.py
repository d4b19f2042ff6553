"""Classification of sentences: the net, and the model that ESPnet's trainer sees."""
