"""Arguments of commands, made from dataclasses of options whose fields `option_checks` declares.

    class CommandOptions(Arguments):
        data_dir: Path = path(parse=DATA_DIR, help="data directory to count")
        most: int = number(5, metavar="N", help="number of lines")

    add_arguments = adder(CommandOptions)

    def run(options: CommandOptions) -> int: ...

`bin/main.py` reads the arguments into the dataclass CommandOptions of the command's module.
"""

import argparse
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import get_annotations
from typing import Any, dataclass_transform

from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import Options, Rule

_LETTERS = {int: "N", float: "X"}


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Arguments:
    """Base class of options of commands, which makes them frozen dataclasses with keywords."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


def argument(option: Field, letters: bool = False, text: str | None = None, shown: object = None) -> dict[str, Any]:
    """Arguments of `ArgumentParser.add_argument` for a declared field, besides its names.

    Args:
        option: The field.
        letters: Whether the help calls a number N or X, and not by the name of the option.
        text: Description in the help instead of the field's.
        shown: The default in the help instead of the field's.
    """
    rule: Rule = option.metadata["rule"]
    text = rule.help if text is None else text
    shown = _default_in_words(option) if shown is None else str(shown)
    if shown:
        text = f"{text[:-1]}; default: {shown})" if text.endswith(")") else f"{text} (default: {shown})"
    if rule.kind is bool:
        return {"action": "store_true", "help": text}
    value = rule.of if rule.kind is list and rule.of else rule
    several = rule.kind in (list, dict)
    made = {"help": text, "type": value.parse or (str if value.kind is dict else value.kind)}
    if value.words and value.kind is str and not value.bare:
        made["choices"] = value.words
    if metavar := rule.metavar or letters and _LETTERS.get(value.kind):
        made["metavar"] = metavar
    if rule.nargs == "append":
        made["action"] = "append"
    elif several or rule.nargs:
        made["nargs"] = rule.nargs or "+"
    if option.default is MISSING:
        return made if rule.positional else made | {"required": True}
    if several and rule.positional:
        return made  # argparse has its own empty list
    changeable = several and not isinstance(rule.nargs, int)
    return made | {"default": list(option.default) if changeable else option.default}


def add_options(
    parser: argparse._ActionsContainer,
    kind: type,
    *names: str,
    letters: bool = False,
    texts: dict[str, str] | None = None,
) -> None:
    """Declare the options of a dataclass in the order of its fields, those of its bases left out.

    All options of a dataclass with a title GROUP, and a text ABOUT if it has one, are in the group of this title.

    Args:
        parser: Parser of the command, or a group of it.
        kind: The dataclass.
        *names: Names of the fields to declare, also of its bases; by default all that it declares itself.
        letters: As for `argument`.
        texts: Descriptions by name of field, instead of those of the fields.
    """
    known = {option.name: option for option in fields(kind) if "rule" in option.metadata}
    title = None if names else vars(kind).get("GROUP")
    if title:
        same = (group for group in parser._action_groups if group.title == title)
        parser = next(same, None) or parser.add_argument_group(title, vars(kind).get("ABOUT"))
    for name in names or get_annotations(kind):
        if option := known.get(name):
            rule = option.metadata["rule"]
            called = rule.key or name
            words = [called] if rule.positional else [f"--{called}", *filter(None, [rule.also])]
            parser.add_argument(*words, **argument(option, letters, (texts or {}).get(name)))


def adder(*parts: type | tuple | Callable) -> Callable[[argparse.ArgumentParser], None]:
    """The function `add_arguments` of a command.

    Args:
        *parts: Dataclasses of options, alone or in a tuple with names of their fields, or functions of the parser.
    """

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        for part in parts:
            if isinstance(part, type | tuple):
                add_options(parser, *(part if isinstance(part, tuple) else [part]))
            else:
                part(parser)

    return add_arguments


def gathered(read: Callable[[argparse.Namespace], Any]) -> Any:
    """Declare a field whose value `read` makes from several arguments."""
    return field(metadata={"gathered": read})


def part(kind: type, *names: str) -> Any:
    """Declare a field with options of another dataclass; takes the arguments of `from_args`."""
    return gathered(lambda args: from_args(kind, args, *names))


def from_args[Kind](kind: type[Kind], args: argparse.Namespace, *names: str) -> Kind:
    """The options of a dataclass, from the arguments that have the names of its fields.

    Args:
        kind: The dataclass.
        args: Parsed arguments.
        *names: Names of the fields to read; by default all. The others keep their defaults, whatever the arguments.

    Raises:
        ConfigError: A value is not allowed.
    """
    values = {}
    for option in fields(kind):  # type: ignore[arg-type]
        rule = option.metadata.get("rule")
        name = (rule and rule.key) or option.name
        if read := option.metadata.get("gathered"):
            values[option.name] = read(args)
        elif hasattr(args, name) and (not names or option.name in names):
            value = getattr(args, name)
            if rule and rule.kind is dict:
                value = _pairs(name, value)
            values[option.name] = tuple(value) if isinstance(value, list) else value
    for option in fields(kind) if not issubclass(kind, Options) else ():  # type: ignore[arg-type]
        if option.name in values and (rule := option.metadata.get("rule")):
            rule.check(rule.key if rule.positional else f"--{rule.key or option.name}", values[option.name])
    return kind(**values)


def _default_in_words(option: Field) -> str:
    """The default of a field in the help; "" where it says nothing."""
    shown = option.metadata["rule"].shown
    if shown is not None:
        return shown
    default = option.default
    if default in (MISSING, None, "", ()) or default is False:
        return ""
    values = default if isinstance(default, tuple) else [default]
    return " ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _pairs(option: str, words: list[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of words such as train=tr."""
    pairs = [word.partition("=")[::2] for word in words]
    names = [name for name, _ in pairs]
    if not all(name and value for name, value in pairs) or len(set(names)) < len(names):
        raise ConfigError(f"--{option} {' '.join(words)}: must be NAME=VALUE, each name once")
    return tuple((name, value) for name, value in pairs)
