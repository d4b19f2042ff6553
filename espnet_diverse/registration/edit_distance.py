"""The package `editdistance` by rapidfuzz, for ESPnet's error rates, where that package is not installed.

ESPnet imports it in functions that compute error rates. It has no wheel for Python 3.13, so it would need a compiler;
rapidfuzz, which jiwer needs too, has one for each version.
"""

import importlib.abc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

NAME = "editdistance"


class EditDistance(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finder behind all others, and loader, of the module with the functions `eval` and `distance`."""

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        """Spec of the module, which no other finder has found."""
        return ModuleSpec(name, self) if name == NAME else None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its functions: the number of insertions, deletions and substitutions of two sequences."""
        from rapidfuzz.distance.Levenshtein import distance

        vars(module).update(eval=distance, distance=distance)


def provide() -> None:
    """Let `import editdistance` succeed from now on."""
    if not any(isinstance(finder, EditDistance) for finder in sys.meta_path):
        sys.meta_path.append(EditDistance())
