"""Diverse attention for ESPnet.

Importing the package is enough for ESPnet's own entry points to know its classes by name; it is cheap, because that
happens when ESPnet is imported.
"""

from espnet_diverse.registration.import_hooks import install

__version__ = "0.1.0"

install()
