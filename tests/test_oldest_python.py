"""The package runs with the oldest Python that setup.py allows: what 3.11 added to the standard library is not used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("espnet_diverse", "benchmarks", "examples")
SOURCES = [ROOT / "setup.py", *sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))]
NEWER = {  # by module; of a module without names, all
    "asyncio": {"Barrier", "Runner", "TaskGroup", "timeout", "timeout_at"},
    "builtins": {"BaseExceptionGroup", "ExceptionGroup"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"EnumCheck", "ReprEnum", "StrEnum", "global_enum", "member", "nonmember", "property", "verify"},
    "hashlib": {"file_digest"},
    "importlib.resources.abc": set(),
    "inspect": {"getmembers_static", "markcoroutinefunction"},
    "itertools": {"batched"},
    "logging": {"getLevelNamesMapping", "getHandlerByName", "getHandlerNames"},
    "math": {"cbrt", "exp2", "sumprod"},
    "operator": {"call"},
    "sys": {"exception", "monitoring"},
    "tomllib": set(),
    "typing": {
        *("LiteralString", "Never", "NotRequired", "Required", "Self", "TypeVarTuple", "Unpack", "assert_never"),
        *("assert_type", "dataclass_transform", "get_overloads", "override", "reveal_type"),
    },
}
METHODS = {"add_note"}
BYTEORDER = {"from_bytes", "to_bytes"}  # the order has a default since 3.11


def newer(source: str) -> Iterator[str]:
    """What a module uses that Python 3.10 lacks."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = NEWER.get(node.module or "")
            yield from (name.name for name in node.names if names is not None and (not names or name.name in names))
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if NEWER.get(name.name) == set())
        elif isinstance(node, ast.Name) and node.id in NEWER["builtins"]:
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from [node.attr] if node.attr in NEWER.get(node.value.id, ()) else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            lacking = node.func.attr in BYTEORDER and len(node.args) + len(node.keywords) < 2
            yield from [node.func.attr] if lacking or node.func.attr in METHODS else []
        elif type(node).__name__ in ("TryStar", "TypeAlias", "TypeVar"):
            yield type(node).__name__


def test_the_oldest_python_is_still_the_one_checked_here():
    assert re.search(r'python_requires=">=3\.10,', (ROOT / "setup.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_newer_is_used(path):
    assert list(newer(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from typing import NamedTuple, Self", ["Self"]),
        ("import tomllib", ["tomllib"]),
        ("hashlib.file_digest(file, 'sha256')", ["file_digest"]),
        ("int.from_bytes(content[:4])", ["from_bytes"]),
        ("int.from_bytes(content[:4], 'big')", []),
        ("number.to_bytes(5)", ["to_bytes"]),
        ("number.to_bytes(length=5, byteorder='big')", []),
        ("raise ExceptionGroup('two', errors)", ["ExceptionGroup"]),
        ("error.add_note('while reading')", ["add_note"]),
    ],
)
def test_what_is_newer_is_found(source, found):
    assert list(newer(source)) == found
