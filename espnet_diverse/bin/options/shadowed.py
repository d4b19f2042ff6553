"""Files of the user that Python imports in place of a library, because their names and places come first."""

import sys
import sysconfig
from pathlib import Path


def shadowing_file(error: ImportError | AttributeError) -> Path | None:
    """The file that an import found in place of a library of the same name, or None if the error is another one.

    Args:
        error: An ImportError, or the AttributeError of a module without an expected name.
    """
    module = error.name if isinstance(error, ImportError) else getattr(error.obj, "__name__", None)
    top = str(module).partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None) or (error.path if isinstance(error, ImportError) else None)
    if file is None:
        return None
    path = Path(file).resolve()
    libraries = {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    shadowed = any((folder / top).is_dir() or (folder / f"{top}.py").is_file() for folder in libraries)
    return path if shadowed and not libraries & set(path.parents) else None
