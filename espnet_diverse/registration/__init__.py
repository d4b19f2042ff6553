"""Registration of this package's classes with ESPnet."""
