"""Checks of the options of a configuration: their names, former names of renamed options, and their values."""

import difflib
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import Field, field, fields
from functools import cache
from typing import Any

from espnet_diverse.errors import ConfigError

RENAMED = {"tasks": "conditions", "default_task": "default_condition"}
"""Present name of each option that had another name in earlier versions."""
_RENAMED_IN = {
    "selection": frozenset(RENAMED),
    **dict.fromkeys(("model_conf", "adapter", "start_tag"), frozenset({"tasks"})),
}  # former names by the section that has the option; elsewhere they are unknown options


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
    """Build the dataclass `kind` from options by name; former names are accepted with a warning.

    Args:
        kind: Dataclass of options.
        given: Options by name.
        owner: Part of the program that the options belong to, such as "head selection", for messages.

    Raises:
        UnknownOptionError: An option is not a field of `kind`.
        ConfigError: An option is given under its former name and its present one.
    """
    known = [option.name for option in fields(kind)]
    given = renamed(given, known, owner)
    check_names(given, known, owner)
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


def renamed(options: Mapping[str, Any], known: Collection[str], owner: str) -> dict[str, Any]:
    """`options` with the present names of renamed options; warns of each former name once in a process.

    Args:
        options: Options by name.
        known: Names of the options that exist; a former name of another option is left as it is.
        owner: What has the options, as messages name it.

    Raises:
        ConfigError: An option is given under both names.
    """
    former = {old: new for old, new in RENAMED.items() if old in options and new in known}
    for old, new in former.items():
        _check_former(old, options, owner)
        _warn(f"{owner}: option {old!r} is now called {new!r}; the former name is still read")
    return {former.get(name, name): value for name, value in options.items()}


def with_present_names(config: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """A configuration in which all renamed options have their present names; warns once where it had former ones.

    Args:
        config: The configuration of a run or model, or a fragment of one.
        origin: Origin of the configuration for messages, for example its path.

    Raises:
        ConfigError: An option is given under both names.
    """
    former = list(_former_names(config, (), origin))
    if not former:
        return dict(config)
    listed = ", ".join(f"{'.'.join(keys)} -> {RENAMED[keys[-1]]}" for keys in former)
    _warn(f"{origin}: former names of options are still read; they are now called: {listed}")
    return _renamed_below(config, ())


def present_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    """A path of keys with the present names of renamed options."""
    return tuple(RENAMED[key] if _is_former(key, keys[:i]) else key for i, key in enumerate(keys))


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


def _former_names(options: Mapping[str, Any], keys: tuple[str, ...], origin: str) -> Iterator[tuple[str, ...]]:
    """Paths of keys that are former names."""
    for key, value in options.items():
        if _is_former(key, keys):
            _check_former(key, options, f"{origin}: {'.'.join(keys)}")
            yield (*keys, key)
        elif isinstance(value, Mapping):
            yield from _former_names(value, (*keys, str(key)), origin)


def _renamed_below(options: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {
        RENAMED[key] if _is_former(key, keys) else key: (
            _renamed_below(value, (*keys, str(key))) if isinstance(value, Mapping) else value
        )
        for key, value in options.items()
    }


def _is_former(key: str, section: tuple[str, ...]) -> bool:
    """Return whether `key` is the former name of an option of a section, given by its path of keys."""
    return bool(section) and key in _RENAMED_IN.get(section[-1], ())


def _check_former(old: str, options: Mapping[str, Any], owner: str) -> None:
    if RENAMED[old] in options:
        raise ConfigError(f"{owner}: {old} is the former name of {RENAMED[old]}; give {RENAMED[old]} alone")


@cache  # attention modules are built many times from one configuration
def _warn(message: str) -> None:
    logging.warning(message)
