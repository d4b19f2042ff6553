"""Checks of the options of a configuration: their names and their values."""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import Field, field, fields
from typing import Any

from espnet_diverse.errors import ConfigError

_FORMER = {"tasks": "conditions", "default_task": "default_condition"}
_FORMER_IN = ("selection", "model_conf", "adapter", "start_tag")


class OptionError(ConfigError):
    """An option that does not exist or has a wrong value.

    Args:
        name: Name of the option.
        message: Text of the error.
    """

    def __init__(self, name: str, message: str):
        super().__init__(message)
        self.name = name


class UnknownOptionError(OptionError):
    """An option that does not exist.

    Args:
        owner: Part of the program that the option was given to, such as "head selection", for the message.
        name: Name of the option.
        known: Names of the options that exist.
    """

    def __init__(self, owner: str, name: str, known: Collection[str]):
        super().__init__(name, f"{owner} has no option {name!r}; known: {' '.join(known) or 'none'}")
        self.owner, self.known = owner, known


def read[Options](kind: type[Options], given: Mapping[str, Any], owner: str) -> Options:
    """Build the dataclass `kind` from options by name.

    Args:
        kind: Dataclass of options.
        given: Options by name.
        owner: Part of the program that the options belong to, such as "head selection", for messages.

    Raises:
        UnknownOptionError: An option is not a field of `kind`.
    """
    check_names(given, [option.name for option in fields(kind)], owner)
    return kind(**given)


def check_names(given: Collection[str], known: Collection[str], owner: str) -> None:
    """Refuse options that do not exist.

    Args:
        given: Names of the given options.
        known: Names of the options that exist.
        owner: Part of the program that the options belong to, for the message.

    Raises:
        UnknownOptionError: The first of `given` that is not in `known`.
    """
    for name in given:
        if name not in known:
            raise UnknownOptionError(owner, name, known)


def hint(name: str, known: Collection[str], owner: str) -> str:
    """Advice after an unknown name: the most similar known name, or all known names.

    Args:
        name: The unknown name.
        known: Names of the options that exist.
        owner: What was given the option, for the message where it has no options.
    """
    if not known:
        return f"{owner} has no options"
    if near := nearest(name, known):
        return f"did you mean {near!r}?"
    if len(known) <= 30:
        return f"known: {' '.join(known)}"
    return f"the nearest of {len(known)} known ones: {' '.join(difflib.get_close_matches(name, known, n=5, cutoff=0))}"


def nearest(name: str, known: Collection[str], similarity: float = 0.6) -> str | None:
    """The most similar of some known names, or None if none reaches the similarity, which is 1 for equal names."""
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=similarity)), None)


def with_present_names(config: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """A section of the configuration of a model, in which options of version 0.1.0 have their present names."""
    former = _FORMER if section in _FORMER_IN else {}
    return {
        former.get(key, key): with_present_names(value, key) if isinstance(value, Mapping) else value
        for key, value in config.items()
    }


def one_of(*choices: str) -> Any:
    """A field that takes one of several names; the first is the default."""
    return field(default=choices[0], metadata={"choices": choices})


def check_fields(options: Any, *others: str) -> None:
    """Check the values of a dataclass of options, except those named in `others`, by `check`.

    Raises:
        OptionError: A value is not allowed.
    """
    for option in fields(options):
        if option.name not in others:
            check(option, getattr(options, option.name))


def check(option: Field, value: Any) -> None:
    """Check a value against the choices of its field, or the type of the field's default; no number may be negative.

    A field whose default is None takes None or a number.

    Raises:
        OptionError: The value is none of the choices, of another type, or negative.
    """
    if value is None and option.default is None:
        return
    name, choices = option.name, option.metadata.get("choices")
    if choices and value not in choices:
        raise OptionError(name, f"unknown {name} {value!r}; known: {' '.join(choices)}")
    if isinstance(option.default, bool) and not isinstance(value, bool):
        raise OptionError(name, f"{name} {value!r} is neither true nor false")
    if choices or isinstance(option.default, bool):
        return
    if not is_number(value):
        raise OptionError(name, f"{name} {value!r} is not a number; YAML reads 5e-4 as text, write 5.0e-4")
    if isinstance(option.default, int) and not isinstance(value, int):
        raise OptionError(name, f"{name} {value!r} is not a whole number")
    if value < 0:
        raise OptionError(name, f"{name} {value} is negative; give 0 or more")


def is_number(value: Any) -> bool:
    """Return whether `value` is an int or a float; a bool and NaN are neither."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
