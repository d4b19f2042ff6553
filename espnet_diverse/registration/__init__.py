"""The one subpackage that changes ESPnet from outside: tables of classes, its import, and copies of its functions."""

from espnet_diverse.registration.global_names import constructed, with_globals
from espnet_diverse.registration.lazy_imports import fast_start

__all__ = ["constructed", "fast_start", "with_globals"]
