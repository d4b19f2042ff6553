"""Renamed modules, classes and functions in the tables of CHANGELOG.md: present names exist, former ones are gone."""

import importlib
import itertools
import re

import pytest
from references.markdown import ROOT

ROWS = re.findall(r"^\| `([^|`]+)` \| `([^|`]+)` \|$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)


def names(cell):
    """`a.{b,c}` is a.b and a.c."""
    head, brace, rest = cell.partition("{")
    return [head + name for name in rest.removesuffix("}").split(",")] if brace else [cell]


def found(name):
    """Whether a module, or an attribute of one, has this name below the package."""
    here = importlib.import_module("espnet_diverse")
    for part in name.split("."):
        try:
            here = importlib.import_module(f"{here.__name__}.{part}")
        except (ImportError, AttributeError):  # not a module, or the parent is a class
            if not hasattr(here, part):
                return False
            here = getattr(here, part)
    return True


def test_the_tables_are_read():
    assert len(ROWS) > 60
    former = list(itertools.chain.from_iterable(names(was) for was, _ in ROWS))
    assert len(former) == len(set(former)) > 100


@pytest.mark.parametrize(("was", "now"), ROWS, ids=[was for was, _ in ROWS])
def test_present_names_exist_and_former_ones_are_gone(was, now):
    assert len(names(was)) in (1, len(names(now)))
    assert [name for name in names(now) if not found(name)] == []
    assert [name for name in names(was) if found(name)] == []
