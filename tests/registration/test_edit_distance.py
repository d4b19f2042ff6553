"""ESPnet's edit distance without a compiled package: the same numbers as a table of all prefixes."""

import importlib
import random
import sys
from importlib.machinery import PathFinder

import pytest
from references.edit_distance import edit_distance

from espnet_diverse.registration.edit_distance import NAME, EditDistance, provide


@pytest.fixture
def provided(monkeypatch):
    """The module as it is where the package is not installed."""
    monkeypatch.setattr(sys, "meta_path", [EditDistance(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    return importlib.import_module(NAME)


def test_distances_of_texts_and_of_words(provided):
    chance = random.Random(0)
    for _ in range(200):
        first, second = ("".join(chance.choices("abc ", k=chance.randrange(9))) for _ in range(2))
        assert provided.eval(first, second) == edit_distance(first, second)
        assert provided.eval(first.split(), second.split()) == edit_distance(first.split(), second.split())
    assert provided.distance("kitten", "sitting") == 3


def test_an_installed_package_has_priority():
    provide()
    provide()
    assert [type(finder) for finder in sys.meta_path].count(EditDistance) == 1
    finders = [finder if isinstance(finder, type) else type(finder) for finder in sys.meta_path]
    assert finders.index(EditDistance) > finders.index(PathFinder)
