"""First lines of docstrings: entries of an index, which begin with a noun phrase or a verb and not with a question."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "espnet_diverse"
QUESTIONS = {"What", "Which", "How", "Those", "That", "Where", "When", "Why", "Whether"}


def asks(node):
    """Return whether a docstring begins like a question; that of a property, read as a value, may say "Whether"."""
    is_value = isinstance(node, ast.FunctionDef) and node.decorator_list
    first = (ast.get_docstring(node) or " ").split()[:1]
    return bool((QUESTIONS - {"Whether"} if is_value else QUESTIONS).intersection(first))


def test_they_begin_with_a_noun_phrase_or_a_verb():
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    found = [
        f"{path.relative_to(PACKAGE)}: {getattr(node, 'name', 'the module')}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds) and asks(node)
    ]
    assert not found
