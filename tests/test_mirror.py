"""Tests of public modules have their names: espnet_diverse/a/b.py is tested in tests/a/test_b.py.

A module is public if it is a command, or more than one module imports it and its name begins with no underscore.
"""

import ast
from collections import Counter

from references.markdown import ROOT

from espnet_diverse.bin.main import COMMANDS

PACKAGE = ROOT / "espnet_diverse"
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}


def imported(path):
    """Modules of the package that a module imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (names & MODULES.keys()) or {node.module} & MODULES.keys()


def test_every_public_module_has_its_file_of_tests():
    importers = Counter(name for path in MODULES.values() for name in set(imported(path)))
    commands = {f"espnet_diverse.bin.{module}" for module, _ in COMMANDS.values()}
    public = {
        name for name in MODULES if importers[name] > 1 and not name.rsplit(".", 1)[-1].startswith("_")
    } | commands
    assert len(public) > 100
    files = {name: PACKAGE.parent / "tests" / MODULES[name].relative_to(PACKAGE) for name in public}
    lacking = [name for name, path in files.items() if not path.with_name(f"test_{path.name}").is_file()]
    assert not lacking, f"no tests/<subpackage>/test_<module>.py for {sorted(lacking)}"
