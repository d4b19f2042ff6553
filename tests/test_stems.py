"""One stem everywhere: an attention's file, table entry, fragment, test and README row have the same name."""

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
ATTENTION = ROOT / "espnet_diverse" / "attention"


def cores() -> dict[str, str]:
    """Name in CORES -> name of the module that its class is imported from."""
    tree = ast.parse((ATTENTION / "__init__.py").read_text(encoding="utf-8"))
    modules = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        target = getattr(node, "target", None) or getattr(node, "targets", [None])[0]
        if isinstance(target, ast.Name) and target.id == "CORES":
            items = zip(node.value.keys, node.value.values, strict=True)
            return {key.value: modules[value.id].rsplit(".", 1)[-1] for key, value in items}
    raise AssertionError("attention/__init__.py has no table CORES")


CORES = cores()


@pytest.mark.parametrize("stem", CORES)
def test_the_module_has_the_name_of_the_core(stem):
    assert CORES[stem] == stem
    assert (ATTENTION / f"{stem}.py").is_file()


@pytest.mark.parametrize("stem", CORES)
def test_the_fragment_selects_the_core_in_encoder_and_decoder(stem):
    fragment = yaml.safe_load((ROOT / "conf" / "attention" / f"{stem}.yaml").read_text(encoding="utf-8"))
    sections = [fragment["encoder_conf"]["attention"]]
    sections += [fragment["decoder_conf"][name] for name in ("attention", "cross_attention")]
    assert {section["core"] for section in sections} == {stem}


@pytest.mark.parametrize("stem", CORES)
def test_the_core_has_tests(stem):
    folder = ROOT / "tests" / "attention"
    laws = (folder / "test_invariants.py").read_text(encoding="utf-8")
    assert (folder / f"test_{stem}.py").is_file() or re.search(r"parametrize\(.*CORES", laws)


@pytest.mark.parametrize("stem", CORES)
def test_the_readme_has_a_row(stem):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `{stem}` \|", readme, flags=re.MULTILINE)


def test_every_attention_fragment_belongs_to_a_core():
    assert {path.stem for path in (ROOT / "conf" / "attention").glob("*.yaml")} == set(CORES)
