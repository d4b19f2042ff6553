"""One stem everywhere: an attention's module, class, fragment, tests and README row have the same name."""

import ast
import importlib
import re
from pathlib import Path

import pytest
import yaml

from espnet_diverse.attention import CORES, Core

ROOT = Path(__file__).resolve().parents[1]
ATTENTION = ROOT / "espnet_diverse" / "attention"
TESTS = ROOT / "tests" / "attention"
each_stem = pytest.mark.parametrize("stem", CORES)


@each_stem
def test_the_module_and_the_class_have_the_name_of_the_core(stem):
    assert CORES[stem].__module__ == f"espnet_diverse.attention.{stem}"
    assert CORES[stem].__name__.lower() == stem.replace("_", "")


def test_every_core_of_the_package_is_in_the_table():
    found = set()
    for path in ATTENTION.glob("*.py"):
        module = importlib.import_module(f"espnet_diverse.attention.{path.stem}".removesuffix(".__init__"))
        classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Core)]
        found |= {value for value in classes if value is not Core}
    assert found == set(CORES.values())


@each_stem
def test_the_fragment_selects_the_core_in_encoder_and_decoder(stem):
    """In the decoder, in those attentions that it supports."""
    fragment = yaml.safe_load((ROOT / "conf" / "attention" / f"{stem}.yaml").read_text(encoding="utf-8"))
    uses = {"attention": "causal", "cross_attention": "cross_attention"}
    expected = [name for name, use in uses.items() if CORES[stem].supports.missing([use, "cached_decoding"]) is None]
    assert list(fragment.get("decoder_conf", {})) == expected
    sections = [fragment["encoder_conf"]["attention"], *fragment.get("decoder_conf", {}).values()]
    assert {section["core"] for section in sections} == {stem}


def test_every_attention_fragment_belongs_to_a_core():
    assert {path.stem for path in (ROOT / "conf" / "attention").glob("*.yaml")} == set(CORES)


@each_stem
def test_the_core_is_tested_against_an_oracle_and_its_gradients_are_checked(stem):
    text = (TESTS / f"test_{stem}.py").read_text(encoding="utf-8")
    assert re.search(rf"build_core\(\"{stem}\"|\b{CORES[stem].__name__}\(", text)
    called = called_in_tests(text)
    assert any("oracle" in name.split(".")[:-1] for name in called), called
    assert any(name.split(".")[-1] == "gradcheck" for name in called), called


def called_in_tests(text):
    """Dotted names of everything that the test functions of a module call themselves."""
    tests = [
        node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    calls = [node for test in tests for node in ast.walk(test) if isinstance(node, ast.Call)]
    return {ast.unparse(call.func) for call in calls}


@pytest.mark.parametrize("body", ["# gradcheck(f)", "'gradcheck(f)'", "import gradcheck", "g = gradcheck"])
def test_a_name_that_is_not_called_in_a_test_does_not_count(body):
    assert called_in_tests(f"def helper():\n    gradcheck(f)\n\ndef test_it():\n    {body}\n    pass") == set()


@each_stem
def test_options_have_a_module_and_tests_of_their_own(stem):
    module = CORES[stem].Options.__module__.rsplit(".", 1)[-1]
    if CORES[stem].Options is not Core.Options:
        assert (ATTENTION / f"{module}.py").is_file() and (TESTS / f"test_{module}.py").is_file()


@each_stem
def test_the_readme_has_a_row(stem):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `{stem}` \|", readme, flags=re.MULTILINE)


@pytest.mark.parametrize("folder", ["heads", "repulsion", "memory"])
def test_the_readme_has_a_row_for_what_stands_beside_an_attention(folder):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (cell,) = re.findall(rf"^\| (`{folder}/[^|]*) \|", readme, flags=re.MULTILINE)
    named = {name.removeprefix(f"{folder}/") for name in re.findall("`([^`]*)`", cell)}
    fragments = {path.stem for path in (ROOT / "conf" / folder).glob("*.yaml")}
    assert named == {name for name in fragments if not name.startswith("lm_")} - {"as_released"}
