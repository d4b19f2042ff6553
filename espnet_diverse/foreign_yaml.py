"""YAML of other people: small, flat documents, whose shape is checked before a value is made of them.

A few lines of YAML can expand beyond the memory (aliases, merge keys), a number in base 60 takes time that grows with
the square of its length, and deep nesting overflows the stack of a parser. So the events of the document are counted
first, which builds nothing; what passes is then read with safe constructors.
"""

import re
from errno import EINVAL
from pathlib import Path

import yaml

from espnet_diverse.errors import DataError, ModelError

MOST_BYTES = 1 << 20
MOST_VALUES = 200_000
"""Values of a document, those of an alias counted wherever it stands; a vocabulary of 50,000 tokens is 50,000."""
MOST_DEPTH = 20
_LONGEST_NUMBER = 100
_NUMBER = re.compile(r"[-+0-9_:.]+")
_SHOWN = 200
_FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError, OverflowError, LookupError, AttributeError)
"""Errors of PyYAML for a text that it cannot read. The last two are of a tag and a value that do not fit, as in
`!!bool x`: PyYAML looks such a value up without a check."""


class _Loader(_FAST):
    """Safe YAML without merge keys."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, "merge keys are not allowed", key.start_mark)


def shortened(value: object) -> str:
    """A value as it is shown in messages, at most 200 characters."""
    text = str(value) if isinstance(value, str | Path) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def problem(error: Exception) -> str:
    """The fault of a text, as one line, from one of `YAML_ERRORS`."""
    if isinstance(error, LookupError | AttributeError):
        return "a value does not fit its tag"
    return " ".join(str(getattr(error, "problem", None) or error).split())


def read_yaml(path: Path, shown: str, todo: str = "download the file again") -> dict:
    """Read a YAML file with a mapping.

    Args:
        path: Path of the file.
        shown: Name of the file in messages.
        todo: What to do about a file that is no such mapping, in messages.

    Raises:
        ModelError: The file cannot be read, is too large or too deep, or is not a mapping in YAML.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OSError(EINVAL, "not a regular file")
        size = path.stat().st_size
        if size > MOST_BYTES:
            allowed = f"at most {MOST_BYTES} are allowed; check where the file is from"
            raise ModelError(f"{shown} has {size} bytes; {allowed}")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{shown} is not valid YAML (not UTF-8 at byte {error.start}); {todo}") from error
    except OSError as error:
        raise ModelError(f"{shown} cannot be read ({error.strerror}); give the directory of a trained model") from error
    try:
        _check_shape(text)
        mapping = _Loader(text).get_single_data()
    except YAML_ERRORS as error:
        raise ModelError(f"{shown} is not valid YAML ({_reason(error)}); {todo}") from error
    if not isinstance(mapping, dict):
        found = "nothing" if mapping is None else f"a {type(mapping).__name__}"
        raise ModelError(f"{shown} contains {found}, not a mapping; {todo}")
    return mapping


def parse_yaml(content: str | bytes, shown: str) -> object:
    """The value of a YAML text, of any size and shape; `shown` names the text in messages.

    Raises:
        DataError: The text is not valid YAML; the message is one line.
    """
    try:
        return yaml.safe_load(content)
    except YAML_ERRORS as error:
        raise DataError(f"{shown} is not valid YAML ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    """`problem`, shortened, with the line in the text where the error has one."""
    mark = getattr(error, "problem_mark", None)
    said = shortened(problem(error))
    return f"{said} in line {mark.line + 1}" if mark else said


def _check_shape(text: str) -> None:
    """Count the values of a document; ValueError for one that is too large, too deep or refers to itself."""
    open_from: list[tuple[str | None, int]] = []  # anchor and count of values at the start of each open collection
    sizes: dict[str, int] = {}
    count = 0
    for event in yaml.parse(text, Loader=_FAST):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, start = open_from.pop()
            if anchor:
                sizes[anchor] = count - start
        elif isinstance(event, yaml.CollectionStartEvent):
            open_from.append((event.anchor, count))
            count += 1
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor:
                sizes[event.anchor] = 1
            if len(event.value) > _LONGEST_NUMBER and event.implicit[0] and _NUMBER.fullmatch(event.value):
                raise ValueError(f"a number of {len(event.value)} digits; {_LONGEST_NUMBER} are allowed")
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ValueError("an alias without a value before it")
            count += sizes[event.anchor]
        if len(open_from) > MOST_DEPTH:
            raise ValueError(f"nested deeper than {MOST_DEPTH} levels")
        if count > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES} values, with what aliases repeat")
