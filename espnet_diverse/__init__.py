"""Diverse attention for ESPnet.

Importing the package registers its classes with ESPnet by name, for ESPnet's own entry points too. The import is cheap:
it adds one finder to `sys.meta_path`, which registers the classes when a task of ESPnet is imported, and does nothing
else.
"""

from espnet_diverse.registration.espnet_tables import register_on_import

__version__ = "0.2.0.dev0"

register_on_import()
