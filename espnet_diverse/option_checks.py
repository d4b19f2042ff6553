"""Checks of dataclasses of options: each value against the choices or the type of the default of its field."""

from dataclasses import Field, field
from typing import Any


def one_of(*choices: str) -> Any:
    """A field that takes one of some names; the first is the default."""
    return field(default=choices[0], metadata={"choices": choices})


def check(option: Field, value: Any) -> None:
    """The type of an option follows from its default; no number may be negative.

    Raises:
        ValueError: The value is none of the choices, of another type, or negative.
    """
    name, choices = option.name, option.metadata.get("choices")
    if choices and value not in choices:
        raise ValueError(f"unknown {name} {value!r}; known: {' '.join(choices)}")
    if isinstance(option.default, bool) and not isinstance(value, bool):
        raise ValueError(f"{name} {value!r} is neither true nor false")
    if choices or isinstance(option.default, bool):
        return
    if not is_number(value):
        raise ValueError(f"{name} {value!r} is no number; YAML reads 5e-4 as text, write 5.0e-4")
    if isinstance(option.default, int) and not isinstance(value, int):
        raise ValueError(f"{name} {value!r} is no whole number")
    if value < 0:
        raise ValueError(f"{name} {value} is negative; give 0 or more")


def is_number(value: Any) -> bool:
    """Whether `value` is an int or a float; a bool is neither."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
