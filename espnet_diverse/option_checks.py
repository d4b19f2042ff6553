"""Options: declarations of their types, ranges, help and errors.

    @dataclass(frozen=True)
    class SearchOptions(Options):
        search: str = choice("batched", "greedy", help="search algorithm")
        beam_size: int = number(10, least=1, help="number of hypotheses kept at each step")

`SearchOptions(beam_size=0)` raises `OptionError`: beam_size must be at least 1, but is 0. The commands make their
arguments from the same declarations (`bin/options/arguments.py`).
"""

import difflib
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from math import inf
from pathlib import Path
from typing import Any

from espnet_diverse.errors import ConfigError

_INSIDE = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}
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
        super().__init__(name, f"unknown option {name!r} of {owner}; {hint(name, known, owner)}")
        self.owner, self.known = owner, known


def must_be(name: str, allowed: str, value: object) -> OptionError:
    """Error of a value that is not allowed."""
    return OptionError(name, f"{name} must be {allowed}, but is {value!r:.100}")


def needs(options: "Options", name: str, other: str) -> OptionError:
    """Error of an option whose value needs something else."""
    return OptionError(name, f"{name} {getattr(options, name)} needs {other}")


def conflict(options: "Options", name: str, other: str) -> OptionError:
    """Error of an option whose value excludes something else."""
    return OptionError(name, f"{name} {getattr(options, name)} cannot be combined with {other}")


@dataclass(frozen=True)
class Options:
    """Base class of dataclasses of options; checks the fields that are declared by the functions below.

    Raises:
        OptionError: A value is not allowed.
    """

    def __post_init__(self) -> None:
        for option in fields(self):
            if rule := option.metadata.get("rule"):
                rule.check(rule.key or option.name, getattr(self, option.name))


@dataclass(frozen=True)
class Rule:
    """The values that an option may have, and how a command takes it.

    Attributes:
        kind: int, float, bool, str, Path, list, or dict for pairs of words.
        none: Whether None is allowed.
        words: Names that are allowed; for a number, in addition to numbers. Without them, a str is any text.
        least, most, above, below: Bounds of a number; for a list, `least` is its minimum length. Infinity is allowed if
            `most` is infinite.
        of: Rule of the elements of a list; a number that has it may also be a list.
        help: Description in the help of commands.
        shown: The default in words, if it is not the value itself; "" shows none.
        key: Name for users, if it is not the field's.
        also: Another name of the option of a command.
        metavar: Name of the value in the help of commands; for a list of fixed length, of each value.
        parse: Function that a command reads the value with, if it is not `kind`.
        nargs: Number of values of a list, or "append" if the option is repeated for each.
        positional: Whether a command takes it without an option.
        bare: Whether the help of a command does not list `words`, so that `help` must.
    """

    kind: type
    none: bool = False
    words: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    of: "Rule | None" = None
    help: str = ""
    shown: str | None = None
    key: str = ""
    also: str = ""
    metavar: str | tuple[str, ...] | None = None
    parse: Callable[[str], Any] | None = None
    nargs: str | int | None = None
    positional: bool = False
    bare: bool = False

    def check(self, name: str, value: Any) -> None:
        """Check a value.

        Raises:
            OptionError: It is not allowed; the message begins with `name`.
        """
        if (value is None and self.none) or (isinstance(value, str) and value in self.words):
            return
        if self.kind is list or (self.of and isinstance(value, list | tuple)):
            self._check_list(name, value)
        elif self.kind is str and self.words:
            raise must_be(name, f"one of {' '.join(self.words)}", value)
        elif self.kind is bool:
            if not isinstance(value, bool):
                raise must_be(name, "true or false", value)
        elif self.kind in (int, float):
            self._check_number(name, value)

    def _check_number(self, name: str, value: Any) -> None:
        suffix = "".join(f" or {word}" for word in (*self.words, *["a list"] * bool(self.of)))
        kinds = (int,) if self.kind is int else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool) or value != value:  # NaN is no number
            error = must_be(name, f"a {'whole ' if self.kind is int else ''}number{suffix}", value)
            if self.kind is float and isinstance(value, str) and re.fullmatch(r"[-+]?[\d.]+[eE][-+]?\d+", value):
                raise OptionError(name, f"{error}; YAML reads 5e-4 as text, write 5.0e-4")
            raise error
        if value in (inf, -inf) and self.most != inf:
            raise must_be(name, f"a finite number{suffix}", value)
        bounds = {"at least": self.least, "above": self.above, "at most": self.most, "below": self.below}
        limits = {words: bound for words, bound in bounds.items() if bound not in (None, inf)}
        if not all(_INSIDE[words](value, bound) for words, bound in limits.items()):
            raise must_be(name, " and ".join(f"{words} {bound}" for words, bound in limits.items()) + suffix, value)

    def _check_list(self, name: str, value: Any) -> None:
        if not isinstance(value, list | tuple) or len(value) < (self.least or 0):
            raise must_be(name, f"a list of at least {self.least}", value)
        for element in value if self.of else ():
            self.of.check(name, element)


SEED = Rule(int, least=0, most=2**32 - 1 - 10**6)
"""Rule of a seed of NumPy, to which the training loop adds the number of the epoch."""


def number(default: Any = MISSING, *, kind: type | None = None, words: Sequence[str] = (), **rule: Any) -> Any:
    """Declare a number.

    Args:
        default: The default; with None, None is allowed; without it the option is required.
        kind: int or float; by default int if the default is one.
        words: Names that are allowed instead of a number.
        **rule: Other attributes of `Rule`.
    """
    kind = kind or (int if isinstance(default, int) else float)
    return _declared(default, Rule(kind, none=default is None, words=tuple(words), **rule))


def choice(*names: str, default: Any = None, required: bool = False, none: bool = False, **rule: Any) -> Any:
    """Declare one of several names; the first is the default, or None if it is allowed, unless it is required."""
    default = MISSING if required else default or (None if none else names[0])
    return _declared(default, Rule(str, words=names, none=none, **rule))


def flag(default: bool = False, **rule: Any) -> Any:
    """Declare an option that is true or false."""
    return _declared(default, Rule(bool, **rule))


def text(default: Any = MISSING, **rule: Any) -> Any:
    """Declare any text; without a default it is required."""
    return _declared(default, Rule(str, none=default is None, **rule))


def path(default: Any = MISSING, **rule: Any) -> Any:
    """Declare a path; without a default it is required."""
    return _declared(default, Rule(Path, none=default is None, **rule))


def listed(default: Any = MISSING, of: Any = None, least: int | None = None, **rule: Any) -> Any:
    """Declare a list of values.

    Args:
        default: The default; without it the list is required.
        of: Declaration of a value, such as `choice("q", "k")`; by default any text.
        least: Minimum length; by default 1, or 0 if the default is empty.
        **rule: Other attributes of `Rule`.
    """
    least = int(bool(default)) if least is None else least
    value = (of or text()).metadata["rule"]
    default = default if default is MISSING or default is None else tuple(default)
    return _declared(default, Rule(list, none=default is None, of=value, least=least, **rule))


def assignments(**rule: Any) -> Any:
    """Declare pairs of words, which a command takes as NAME=VALUE, each name once; the default is none."""
    return _declared((), Rule(dict, **rule))


def replaced(kind: type, name: str, default: Any) -> Any:
    """Declare a field of the dataclass `kind` again, with another default."""
    return _declared(default, next(option.metadata["rule"] for option in fields(kind) if option.name == name))


def _declared(default: Any, rule: Rule) -> Any:
    return field(default=default, metadata={"rule": rule})


def read[Kind](kind: type[Kind], values: Mapping[str, Any], owner: str) -> Kind:
    """Build the dataclass `kind` from options by name.

    Args:
        kind: Dataclass of options.
        values: Options by name.
        owner: Part of the program that the options belong to, such as "head selection", for messages.

    Raises:
        ConfigError: `values` is not a mapping.
        UnknownOptionError: An option is not a field of `kind`.
    """
    names = [option.name for option in fields(kind)]
    if not isinstance(values, Mapping):
        such = f"a mapping of options, such as {{{names[0]}: ...}}"
        raise ConfigError(f"{owner} must be {such}, but is {values!r:.100}")
    check_names(values, names, owner)
    return kind(**values)


def check_names(names: Collection[str], known: Collection[str], owner: str) -> None:
    """Refuse options that do not exist.

    Args:
        names: Names of the given options.
        known: Names of the options that exist.
        owner: Part of the program that the options belong to, for the message.

    Raises:
        UnknownOptionError: The first of `names` that is not in `known`.
    """
    for name in names:
        if name not in known:
            raise UnknownOptionError(owner, name, known)


def hint(name: str, known: Collection[str], owner: str) -> str:
    """Advice after an unknown name: the most similar known name, or all known names.

    Args:
        name: The unknown name.
        known: Names of the options that exist.
        owner: Part of the program that the option was given to, for the message if it has no options.
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


def similar_path(path: Path) -> Path | None:
    """The existing path that is most similar to a path that does not exist, or None: one name in it may differ."""
    for missing in (path, *path.parents):
        if missing.parent.is_dir() and not missing.exists():
            near = nearest(missing.name, [sibling.name for sibling in missing.parent.iterdir()], similarity=0.7)
            candidate = missing.parent / (near or "") / path.relative_to(missing)
            return candidate if near and candidate.exists() else None
    return None


def with_present_names(config: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """A section of a model's configuration, with options of version 0.1.0 under their current names."""
    former = _FORMER if section in _FORMER_IN else {}
    return {
        former.get(key, key): with_present_names(value, key) if isinstance(value, Mapping) else value
        for key, value in config.items()
    }
