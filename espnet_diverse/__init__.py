"""Diverse attention for ESPnet.

Importing the package registers its classes with ESPnet by name, for ESPnet's own entry points too. The import is cheap:
it adds finders to `sys.meta_path`, one of which registers the classes when a task of ESPnet is imported and keeps its
message about Flash Attention from stderr, and does nothing else. The names of `espnet_diverse.inference` and `learning`
in `__all__` are imported when they are first used, which takes seconds.
"""

import difflib
import importlib
from typing import TYPE_CHECKING, Any

from espnet_diverse.registration.espnet_tables import register_on_import

if TYPE_CHECKING:
    from espnet_diverse.inference import Recognizer, StreamRecognizer, Translator
    from espnet_diverse.learning import FineTuningOptions, TrainingOptions, fine_tune, train

__all__ = [
    "FineTuningOptions",
    "Recognizer",
    "StreamRecognizer",
    "TrainingOptions",
    "Translator",
    "fine_tune",
    "train",
]
_LEARNING = ("FineTuningOptions", "TrainingOptions", "fine_tune", "train")
__version__ = "0.2.0.dev0"

register_on_import()


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        near = [] if name.startswith("_") else difflib.get_close_matches(name, __all__, n=1)
        message = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{message}", name=name)
    module = "learning" if name in _LEARNING else "inference"
    return getattr(importlib.import_module(f"espnet_diverse.{module}"), name)
