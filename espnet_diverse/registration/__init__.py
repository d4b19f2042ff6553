"""Registration of our classes in ESPnet's tables: the one room that touches names of ESPnet."""
