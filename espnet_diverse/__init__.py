"""Diverse attention for ESPnet.

Importing the package registers its classes with ESPnet by name, for ESPnet's own entry points too, and does nothing
else. The import is cheap; registration takes place when a task of ESPnet is imported.
"""

from espnet_diverse.registration.espnet_tables import register_on_import

__version__ = "0.2.0.dev0"

register_on_import()
