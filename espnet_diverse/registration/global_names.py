"""Copies of ESPnet's functions that find our classes under some of the global names that they read.

ESPnet calls some classes by a fixed global name of a module and offers no method to override. A copy of the function
that calls them changes nothing in the module, so that other threads, and ESPnet used beside us, keep ESPnet's classes.
"""

import inspect
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any


def with_globals(function: Callable, **values: object) -> Callable:
    """Copy a Python function, with our values of some of the global names that it reads.

    Args:
        function: The function; decorators that keep it in `__wrapped__` are left out.
        values: Value of each name.

    Raises:
        KeyError: The module of the function has none of a name, or the function does not read it.
    """
    function = inspect.unwrap(function)
    if unread := [name for name in values if name not in function.__globals__ or not _reads(function.__code__, name)]:
        raise KeyError(f"{function.__module__}.{function.__qualname__} does not read a global {unread[0]}")
    names = {**function.__globals__, **values}
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def constructed[T](cls: type[T], values: Mapping[str, object], *args: Any, **kwargs: Any) -> T:
    """Construct an object by a copy of its class's `__init__`, see `with_globals`, that reads names from `values`."""
    made = cls.__new__(cls)
    with_globals(cls.__init__, **values)(made, *args, **kwargs)
    return made


def _reads(code: CodeType, name: str) -> bool:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return name in code.co_names or any(_reads(nested, name) for nested in inner)
