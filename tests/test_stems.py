"""One stem everywhere: an attention's module, fragment and rows of the documentation have the same name."""

import re

import pytest
import yaml
from references.markdown import ROOT

from espnet_diverse.attention import CORES


def named(start=""):
    """What the rows of README.md that begin with something name in their first cells, a list for each row."""
    rows = re.findall(rf"^\| (`{start}[^|]*) \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    return [re.findall("`([^`]*)`", row) for row in rows]


@pytest.mark.parametrize("stem", CORES)
def test_a_core_has_its_module_its_fragment_and_its_row(stem):
    """In the decoder the fragment selects the core for those attentions that it supports."""
    assert CORES[stem].__module__ == f"espnet_diverse.attention.cores.{stem}"
    assert sum(stem in row for row in named()) == 1
    fragment = yaml.safe_load((ROOT / "conf" / "attention" / f"{stem}.yaml").read_text("utf-8"))
    uses = {"attention": "causal", "cross_attention": "cross_attention"}
    expected = [name for name, use in uses.items() if CORES[stem].supports.missing([use, "cached_decoding"]) is None]
    assert list(fragment.get("decoder_conf", {})) == expected
    sections = [fragment["encoder_conf"]["attention"], *fragment.get("decoder_conf", {}).values()]
    assert {section["core"] for section in sections} == {stem}


def test_every_attention_fragment_belongs_to_a_core():
    assert {path.stem for path in (ROOT / "conf" / "attention").glob("*.yaml")} == {*CORES, "best_text", "best_speech"}


@pytest.mark.parametrize("folder", ["heads", "modifiers", "repulsion", "memory"])
def test_fragments_combined_with_attentions_have_a_row(folder):
    (row,) = named(f"{folder}/")
    fragments = {path.stem for path in (ROOT / "conf" / folder).glob("*.yaml")}
    of_another_net = ("lm_", "decoder_", "cross_")
    expected = {name for name in fragments if not name.startswith(of_another_net)} - {"as_released"}
    assert {name.removeprefix(f"{folder}/") for name in row} == expected
