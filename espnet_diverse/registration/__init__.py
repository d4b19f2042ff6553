"""The one subpackage that changes ESPnet from outside: its tables of classes, its import, and its global names."""

from espnet_diverse.registration.lazy_imports import fast_start
from espnet_diverse.registration.replace_names import replaced_names

__all__ = ["fast_start", "replaced_names"]
