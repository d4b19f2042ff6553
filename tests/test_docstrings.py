"""First lines of docstrings: entries of an index, which begin with a noun phrase or a verb and not with a question."""

import ast
import itertools
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "espnet_diverse"
QUESTIONS = {"What", "Which", "How", "Those", "That", "Where", "When", "Why", "Whether"}


def asks(node):
    """Return whether a docstring begins like a question; that of a property, read as a value, may say "Whether"."""
    is_value = isinstance(node, ast.FunctionDef) and node.decorator_list
    first = (ast.get_docstring(node) or " ").split()[:1]
    return bool((QUESTIONS - {"Whether"} if is_value else QUESTIONS).intersection(first))


def attributes(tree):
    """The strings that follow an assignment in a module or a class: documentation of a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            for before, after in itertools.pairwise(node.body):
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                if isinstance(before, ast.Assign | ast.AnnAssign) and is_text:
                    yield str(after.value.value)


def test_they_begin_with_a_noun_phrase_or_a_verb():
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    found = [
        f"{path.relative_to(PACKAGE)}: {getattr(node, 'name', 'the module')}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds) and asks(node)
    ]
    found += [
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in attributes(ast.parse(path.read_text(encoding="utf-8")))
        if text.split()[0] in QUESTIONS - {"Whether"}
    ]
    assert not found


def documented(node):
    """The names that a function or a class documents under "Args"."""
    _, found, after = (ast.get_docstring(node) or "").partition("\nArgs:\n")
    for line in after.splitlines() if found else ():
        if line and not line.startswith(" "):
            return
        if match := re.match(r"    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", line):
            yield from (name.strip(" *") for name in match[1].split(","))


def parameters(node):
    """The parameters of a function, or of the constructor of a class; None for a class without one or with another."""
    if isinstance(node, ast.ClassDef):
        if "__signature__" in {ast.unparse(child.targets[0]) for child in node.body if isinstance(child, ast.Assign)}:
            return None
        node = next((child for child in node.body if getattr(child, "name", None) == "__init__"), None)
    if node is None:
        return None
    all_of_them = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
    return {argument.arg for argument in all_of_them if argument}


def test_args_are_parameters():
    found = [
        f"{path.relative_to(PACKAGE)}: {node.name}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for name in documented(node)
        if (known := parameters(node)) is not None and name not in known
    ]
    assert not found
