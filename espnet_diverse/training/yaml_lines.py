"""YAML texts that users write: safe parsing with the line of every key, and errors that name the line."""

import re

import yaml

from espnet_diverse.errors import ConfigError
from espnet_diverse.foreign_yaml import YAML_ERRORS, problem

_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """Safe YAML in which 1e-3 is a number, as in YAML 1.2; PyYAML alone reads it as text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parse(text: str, shown: str) -> tuple[object, dict[tuple[str, ...], int]]:
    """Parse a YAML text.

    Args:
        text: The text; numbers such as 1e-3 are floats, as in YAML 1.2.
        shown: Name of the text in messages.

    Returns:
        The value, and the line of each path of keys.

    Raises:
        ConfigError: The text is not valid YAML, or a key is not text or occurs twice in a mapping.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines: dict[tuple[str, ...], int] = {}
        _check_node(node, (), lines, shown)
        return None if node is None else loader.construct_document(node), lines
    except ConfigError:
        raise
    except yaml.reader.ReaderError as error:  # has a place in the text, and no mark
        line, what = text.count("\n", 0, error.position) + 1, f"the character U+{ord(text[error.position]):04X}"
        raise ConfigError(f"{shown}:{line}: not valid YAML: {what} is not allowed; remove it") from error
    except YAML_ERRORS as error:
        raise ConfigError(fault(error, shown)) from error


def kind(content: object) -> str:
    """The kind of value in a file that should be a mapping, for messages."""
    return "empty" if content is None else f"a {type(content).__name__}"


def fault(error: Exception, shown: str) -> str:
    """The fault of a YAML text with its line number, as one line; `shown` names the text."""
    if isinstance(error, RecursionError):
        return f"{shown}: not valid YAML: nested too deeply"
    mark = getattr(error, "problem_mark", None)
    where = f"{shown}:{mark.line + 1}" if mark else shown
    return f"{where}: not valid YAML: {problem(error)}"


def _check_node(node: yaml.Node | None, keys: tuple[str, ...], lines: dict[tuple[str, ...], int], shown: str) -> None:
    """Check that keys are text and occur once in their mapping; add the line of each key to `lines`."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_node(item, (*keys, "[]"), lines, shown)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    # Merges first: a key that stands beside a merge replaces the one that is merged.
    for name, value in sorted(node.value, key=lambda pair: pair[0].tag != _MERGE):
        line = name.start_mark.line + 1
        if name.tag == _MERGE:
            for merged in reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]:
                _check_node(merged, keys, lines, shown)
            continue
        if name.tag != "tag:yaml.org,2002:str":
            raise ConfigError(f"{shown}:{line}: key {name.value!r} is not text; put it in quotes")
        if name.value in seen:
            raise ConfigError(f"{shown}:{line}: key {name.value!r} is already on line {seen[name.value]}; keep one")
        seen[name.value] = line
        lines[(*keys, name.value)] = line
        _check_node(value, (*keys, name.value), lines, shown)
