"""YAML from users and from other people: small, flat documents, whose shape is checked before values are built.

A few lines of YAML can expand beyond the memory (aliases, merge keys), a number in base 60 takes time that grows with
the square of its length, and deep nesting overflows the stack of a parser. So the events of the document are counted
first, which builds nothing; then the document is read with safe constructors.
"""

import copy
import re
from collections.abc import Callable
from errno import EFBIG
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import yaml

from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.untrusted.whole_files import read_bytes, read_text

MOST_BYTES = 1 << 20
MOST_VALUES = 200_000
"""Values of a document, with an alias's values counted at each use; a vocabulary of 50,000 tokens is 50,000."""
_MOST_OF_OWN = 1 << 22
"""Characters of a text of a user; its scanner is slow."""
MOST_OF_A_RUN = 1 << 24, 800_000
"""Bytes and values of config.yaml, which may hold two vocabularies of 300,000 tokens."""
MOST_DEPTH = 20
_MOST_OF_A_CORPUS = 1 << 26, 5_000_000
"""Bytes and values of a list of the utterances of a corpus; 100,000 utterances are 12 MB and 1.3 million values."""
_LONGEST_NUMBER = 100
_NUMBER = re.compile(r"[-+0-9_:.]+")
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_PREFIX = re.compile("[-+]?0[xXbB]")
_NUMBERS_HERE = (
    r"[-+]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*)$",
    r"([-+]?(([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF))|\.(nan|NaN|NAN))$",
)
_TEXT_HERE = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
_SHOWN = 200
_FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"

YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError, OverflowError, LookupError, AttributeError)
"""Errors of PyYAML for a text that it cannot read. The last two come from a tag and a value that do not fit, as in
`!!bool x`: PyYAML looks the value up without a check."""


class _Loader(_FAST):
    """Safe YAML without merge keys, in which a key occurs once in a mapping."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key, _ in node.value:
            if key.tag == _MERGE:
                raise yaml.constructor.ConstructorError(None, None, "merge keys are not allowed", key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                continue  # a list or a mapping, which PyYAML refuses as a key
            if (name := (key.tag, key.value)) in seen:
                message = f"key {shortened(key.value)} occurs twice"
                raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
            seen.add(name)


class _OwnLoader(yaml.SafeLoader):
    """Safe YAML of a user, in which numbers are those of YAML 1.2: 1e-3 is a number, 010 is 10, and 12:30 is text.

    PyYAML reads YAML 1.1, in which they are text, 8 and 750; a date is text here, too. Numbers may have underscores.
    """

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (*_NUMBER_TAGS, *_TEXT_HERE)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Return an integer; zeros at its beginning mean nothing."""
        digits = self.construct_scalar(node).replace("_", "")
        try:
            return int(digits, 0 if _PREFIX.match(digits) else 10)
        except ValueError as error:
            raise LookupError(digits) from error  # see `problem`


class OwnDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    """Writes YAML in which text stays text, both for PyYAML and for `parse_own`: "1e3" and "12:30" get quotes."""


for _class in (_OwnLoader, OwnDumper):
    for _tag, _pattern in zip(_NUMBER_TAGS, _NUMBERS_HERE, strict=True):
        _class.add_implicit_resolver(_tag, re.compile(_pattern), list("-+.0123456789"))
_OwnLoader.add_constructor(_NUMBER_TAGS[0], _OwnLoader.construct_yaml_int)


def shortened(value: object) -> str:
    """A value for messages, at most 200 characters, without control characters for a terminal."""
    text = str(value)
    text = text if isinstance(value, str | Path) and text.isprintable() else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def kind(content: object) -> str:
    """The kind of value in a file that should be a mapping, for messages."""
    return "empty" if content is None else f"a {type(content).__name__}"


def problem(error: Exception) -> str:
    """The fault of a text as one line, given one of `YAML_ERRORS`."""
    if isinstance(error, LookupError | AttributeError):
        return "a value does not fit its tag"
    return " ".join(str(getattr(error, "problem", None) or error).split())


def read_yaml(
    path: Path,
    shown: str,
    todo: str = "download the file again",
    most: tuple[int, int] = (MOST_BYTES, MOST_VALUES),
) -> dict:
    """Read a YAML file with a mapping.

    Args:
        path: Path of the file.
        shown: Name of the file in messages.
        todo: Advice in messages for a file that is not a mapping.
        most: Numbers of bytes and values that are allowed.

    Raises:
        ModelError: The file cannot be read, is too large or too deep, or is not a mapping in YAML.
    """
    try:
        text = read_text(path, most[0])
    except UnicodeDecodeError as error:
        raise ModelError(f"{shown} is not valid YAML (not UTF-8 at byte {error.start}); {todo}") from error
    except OSError as error:
        if error.errno == EFBIG:
            raise ModelError(f"{shown} {error.strerror}; check where the file is from") from error
        raise ModelError(f"{shown} cannot be read ({error.strerror}); give the directory of a trained model") from error
    try:
        mapping = copy.deepcopy(_document(text, most[1]))
    except YAML_ERRORS as error:
        raise ModelError(f"{shown} is not valid YAML ({_reason(error)}); {todo}") from error
    if not isinstance(mapping, dict):
        content = "nothing" if mapping is None else f"a {type(mapping).__name__}"
        raise ModelError(f"{shown} contains {content}, not a mapping; {todo}")
    return mapping


def read_list(path: Path, shown: str) -> object:
    """Read the list of utterances of a corpus; `shown` names the file in messages.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: The file is too large or too deep, or not valid YAML; the message is one line.
    """
    most_bytes, most_values = _MOST_OF_A_CORPUS
    try:
        return _load(read_bytes(path, most_bytes), _Loader, most_values=most_values)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataError(f"{shown}: cannot be read ({error.strerror})") from error
    except YAML_ERRORS as error:
        raise DataError(f"{shown} is not valid YAML ({_reason(error)})") from error


def parse_own(text: str, shown: str) -> tuple[object, dict[tuple[str, ...], int]]:
    """Parse a YAML text that a user wrote.

    Args:
        text: The text; its numbers are those of YAML 1.2, see `_OwnLoader`.
        shown: Name of the text in messages.

    Returns:
        The value, and the line of each path of keys.

    Raises:
        ConfigError: The text is not valid YAML, too large or too deep, or a key is not text or occurs twice in a
            mapping.
    """
    lines: dict[tuple[str, ...], int] = {}
    if len(text) > _MOST_OF_OWN:
        raise ConfigError(f"{shown}: has {len(text)} characters; {_MOST_OF_OWN} are allowed: is it a configuration?")
    try:
        return _load(text, _OwnLoader, lambda node: _check_node(node, (), lines, shown)), lines
    except ConfigError:
        raise
    except yaml.reader.ReaderError as error:  # has a position in the text, but no mark
        line, reason = text.count("\n", 0, error.position) + 1, f"the character U+{ord(text[error.position]):04X}"
        raise ConfigError(f"{shown}:{line}: not valid YAML: {reason} is not allowed; remove it") from error
    except YAML_ERRORS as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{shown}:{mark.line + 1}" if mark else shown
        message = problem(error)
        todo = "; replace the tab by spaces" if r"'\t'" in message else ""
        raise ConfigError(f"{where}: not valid YAML: {message}{todo}") from error


def _load(text: str | bytes, loader: type, check: Callable | None = None, most_values: int = MOST_VALUES) -> object:
    """The value of a document whose shape is allowed, after a check of its node; one of `YAML_ERRORS` otherwise."""
    _check_shape(text, loader, most_values)
    reading = loader(text)
    node = reading.get_single_node()
    if check is not None:
        check(node)  # before merge keys are replaced
    return None if node is None else reading.construct_document(node)


@lru_cache(maxsize=2)
def _document(text: str, most_values: int) -> object:
    """`_load` for the configurations of a model and of its language model, which a command reads several times."""
    return _load(text, _Loader, most_values=most_values)


def _reason(error: Exception) -> str:
    """`problem`, shortened, with the line in the text where the error has one."""
    mark = getattr(error, "problem_mark", None)
    message = shortened(problem(error))
    return f"{message} in line {mark.line + 1}" if mark else message


def _check_shape(text: str | bytes, loader: type, most_values: int) -> None:
    """Count the values of a document; ValueError for one that is too large, too deep or refers to itself."""
    open_from: list[tuple[str | None, int]] = []  # anchor and count of values at the start of each open collection
    sizes: dict[str, int] = {}
    count = 0
    for event in yaml.parse(text, Loader=loader):
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
            is_number = event.tag in _NUMBER_TAGS or event.implicit[0] and _NUMBER.fullmatch(event.value)
            if is_number and len(event.value) > _LONGEST_NUMBER:
                raise ValueError(f"a number of {len(event.value)} digits; {_LONGEST_NUMBER} are allowed")
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ValueError("an alias without a value before it")
            count += sizes[event.anchor]
        if len(open_from) > MOST_DEPTH:
            raise ValueError(f"nested deeper than {MOST_DEPTH} levels")
        if count > most_values:
            raise ValueError(f"more than {most_values} values, with what aliases repeat")


def _check_node(node: yaml.Node | None, keys: tuple[str, ...], lines: dict[tuple[str, ...], int], shown: str) -> None:
    """Check that keys are text and occur once in their mapping; add the line of each key to `lines`."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_node(item, (*keys, "[]"), lines, shown)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    # Merges first: a key next to a merge replaces the same key of the merge.
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
