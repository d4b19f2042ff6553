"""Tests mirror the package: espnet_diverse/<part>/<module>.py is tested in tests/<part>/test_<module>.py."""

import re
from pathlib import Path

from espnet_diverse.corpora.synthetic.grammar import LANGUAGES

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "espnet_diverse"
MODULES = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
ELSEWHERE = {f"corpora/synthetic/grammar/{language}.py": "corpora/synthetic/test_grammar.py" for language in LANGUAGES}
"""Modules without a file of their own, and the file that tests them: the sentences of all languages are one test."""


def mirrored(module: str) -> Path:
    """Path of the tests of a module, if it has a file of its own."""
    return TESTS / Path(module).parent / f"test_{Path(module).name}"


def names_of_tests(path: Path) -> list[str]:
    """Names of the tests in a file."""
    return re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_every_module_has_its_file_of_tests():
    lacking = [module for module in MODULES - ELSEWHERE.keys() if not mirrored(module).is_file()]
    assert not lacking, f"no tests/<subpackage>/test_<module>.py for {sorted(lacking)}"
    empty = [module for module in MODULES - ELSEWHERE.keys() if not names_of_tests(mirrored(module))]
    assert not empty, f"no test in the files of {sorted(empty)}"


def test_exceptions_are_needed_and_their_tests_import_them():
    for module, file in ELSEWHERE.items():
        assert module in MODULES and not mirrored(module).exists(), module
        package = ".".join(["espnet_diverse", *Path(module).parent.parts])
        assert f"from {package} import " in (TESTS / file).read_text(encoding="utf-8"), module
