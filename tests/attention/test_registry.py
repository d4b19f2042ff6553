"""Cores that a program registers under a name."""

import pytest
import torch

from espnet_diverse.attention import (
    CORES,
    Core,
    Supports,
    build_attention,
    check_uses,
    known_cores,
    register_core,
    registry,
)


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


class Mean(Core):
    def forward(self, heads):
        return heads.v.mean(-2, keepdim=True).expand_as(heads.q), None


def test_as_a_function_and_as_a_decorator():
    assert register_core("mean", Mean) is Mean
    assert register_core("average")(Mean) is Mean
    assert list(known_cores()) == [*CORES, "mean", "average"]
    module, x = build_attention("mean", 8, 2), torch.randn(2, 5, 8)
    expected = module.linear_out(module.linear_v(x).mean(1, keepdim=True).expand(-1, 5, -1))
    torch.testing.assert_close(module(x, x, x, None), expected)


def test_the_table_of_this_package_stays():
    register_core("mean", Mean)
    assert "mean" not in CORES and known_cores().keys() == {*CORES, "mean"}


def test_a_class_may_be_defined_again():
    register_core("mean", Mean)
    again = type("Mean", (Mean,), {"__qualname__": Mean.__qualname__})
    register_core("mean", again)
    assert known_cores()["mean"] is again


@pytest.mark.parametrize(
    ("name", "core", "text"),
    [
        (
            "sdma",
            Mean,
            "the name 'sdma' belongs to the attention core espnet_diverse.attention.cores.sdma.SDMA; choose another",
        ),
        (
            "taken",
            Mean,
            r"the name 'taken' belongs to the attention core \S+\.Other; choose another name for \S+\.Mean",
        ),
        ("mean", Mean(8, 2), "cannot be registered as attention 'mean'; give a subclass of Core"),
        ("mean", int, "<class 'int'> cannot be registered as attention 'mean'; give a subclass of Core"),
        (
            "mean",
            type("Of", (Mean,), {"supports": Supports}),
            "supports of .*Of is <class .*Supports'>; give an instance",
        ),
        ("mean", type("Of", (Mean,), {"supports": {"causal": True}}), "supports of .*Of is {'causal': True}; give an"),
        (
            "mean",
            type("Of", (Mean,), {"Options": type("Options", (Core.Options,), {"scale": 1.0})}),
            "Options of .*Of is no dataclass; write @dataclass",
        ),
    ],
)
def test_invalid_registrations_are_refused(name, core, text):
    register_core("taken", type("Other", (Mean,), {}))
    with pytest.raises(ValueError, match=text):
        register_core(name, core)


def test_classes_of_one_name_in_two_modules_do_not_replace_each_other():
    register_core("mean", type("Mean", (Mean,), {"__module__": "one"}))
    with pytest.raises(ValueError, match="the name 'mean' belongs to the attention core one.Mean; .* for two.Mean"):
        register_core("mean", type("Mean", (Mean,), {"__module__": "two"}))


def test_a_notebook_may_define_its_class_again():
    register_core("mean", type("Mean", (Mean,), {"__module__": "__main__"}))
    again = type("Mean", (Mean,), {"__module__": "__main__"})
    assert register_core("mean", again) is again and known_cores()["mean"] is again


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("maen", r"unknown attention 'maen'; did you mean 'mean'\? \(register_core adds others\)"),
        ("xyz", rf"unknown attention 'xyz'; known: {' '.join(CORES)} mean \(register_core adds others\)"),
        (["mean"], rf"core \['mean'\] is not a name; give one of: {' '.join(CORES)} mean$"),
    ],
)
def test_an_unknown_name_has_a_hint(name, text):
    register_core("mean", Mean)
    with pytest.raises(ValueError, match=text):
        build_attention(name, 8, 2)


def test_a_module_of_the_environment_that_cannot_be_imported_is_named(monkeypatch, tmp_path):
    (tmp_path / "broken_cores.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name, reason in [("no_such_cores", "No module named 'no_such_cores'"), ("broken_cores", "division by zero")]:
        monkeypatch.setenv(registry.MODULES, name)
        with pytest.raises(ValueError, match=f"^ESPNET_DIVERSE_CORES: the module '{name}' .*{reason}"):
            build_attention("softmax", 8, 2)


def test_the_message_names_the_cores_that_support_a_use():
    register_core("mean", Mean)
    check_uses("mean", Mean.supports, ["padding"])
    able = [name for name, core in CORES.items() if core.supports.cross_attention]
    assert {"softmax", "sma", "sdma"} <= set(able) < set(CORES)
    text = f"attention 'mean' does not support cross-attention; choose one that does: {' '.join(able)}$"
    with pytest.raises(ValueError, match=text):
        check_uses("mean", Mean.supports, ["padding", "cross_attention"])
    with pytest.raises(ValueError, match=f"does not support batches with padding; .*: {' '.join(CORES)} mean$"):
        check_uses("mine", Supports(padding=False), ["padding"])


def test_a_core_that_its_options_limit_is_not_recommended_in_its_place():
    with pytest.raises(ValueError, match="attention 'sma' does not support cross-attention; .*: softmax sdma"):
        check_uses("sma", Supports(), ["cross_attention"])


@pytest.mark.parametrize(
    ("options", "use"),
    [
        ({"relative": True}, "relative position"),
        ({"causal": True}, "causal self-attention"),
        ({"cross": True}, "cross-attention"),
        ({"selection": {"strategy": "group", "pool": 4, "conditions": {"lang": ["de", "en"]}}}, "head selection"),
    ],
)
def test_an_attention_with_an_undeclared_use_is_not_built(options, use):
    register_core("mean", Mean)
    with pytest.raises(ValueError, match=f"attention 'mean' does not support {use}"):
        build_attention("mean", 8, 2, **options)
