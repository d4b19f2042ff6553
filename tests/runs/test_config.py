"""Configuration fragments: merging, overrides, and the errors that name file and line."""

import math
import re
from pathlib import Path

import pytest
import torch
import yaml

from espnet_diverse.attention import CORES
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import CONF_DIR, check_keys, differences, find, load, merge, save
from espnet_diverse.runs.tasks import read_config
from espnet_diverse.training.checkpoints.averaging import average
from espnet_diverse.training.initialisation import initialise

ROOT = CONF_DIR.parent


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a YAML file below an empty working directory and returns its name."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> str:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    return write


def test_mappings_merge_and_lists_and_scalars_replace(write):
    a = write("a.yaml", "x: {left: 1, list: [1, 2]}\ny: 1\nz: {deep: 1}\n")
    b = write("b.yaml", "x: {right: 2, list: [3]}\ny: {now: a mapping}\nz: null\n")
    merged = merge([a, b])
    assert merged == {"x": {"left": 1, "list": [3], "right": 2}, "y": {"now": "a mapping"}, "z": None}


def test_merging_leaves_the_earlier_fragment_alone_where_yaml_shares_a_node(write):
    a = write("a.yaml", "one: &shared {list: [1], n: 1}\ntwo: *shared\nthree: {<<: *shared, n: 3}\n")
    merged = merge([a], ["one.n=2"])
    assert merged == {"one": {"list": [1], "n": 2}, "two": {"list": [1], "n": 1}, "three": {"list": [1], "n": 3}}
    save(merged, "saved.yaml")
    assert "&" not in Path("saved.yaml").read_text()


def test_names_work_with_and_without_ending_and_fall_back_to_the_shared_folder(write):
    write("conf/train.yaml", "x: 1")
    assert find(["./conf/train.yaml", "conf/train"]) == [Path("conf/train.yaml")] * 2
    assert find(["model/tiny"]) == [CONF_DIR / "model/tiny.yaml"]
    write("model/tiny.yaml", "x: 2")
    assert find(["model/tiny"]) == [Path("model/tiny.yaml")]
    assert find(["tiny"], search=["model"]) == [Path("model/tiny.yaml")]


def test_a_local_file_in_place_of_a_shared_fragment_is_named_once(write, caplog):
    find([write("mine.yaml", "x: 1"), "model/tiny", CONF_DIR / "model" / "tiny.yaml"])
    assert caplog.messages == []
    write("model/tiny.yaml", "x: 2")
    for _ in range(2):
        find(["model/tiny"])
    local, shared = Path("model/tiny.yaml").resolve(), (CONF_DIR / "model" / "tiny.yaml").resolve()
    assert caplog.messages == [f"configuration fragment model/tiny: {local} is used instead of {shared}"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", r"config\.yaml contains nothing, not a mapping; copy the file again"),
        (b"- 1\n", r"config\.yaml contains a list, not a mapping; copy the file again"),
        (b"a: 1\nb: [1\nc: 2\n", r"config\.yaml is not valid YAML \(did not find .* in line 3\); copy the file again"),
        (b"a: !!python/object/apply:os.getcwd []\n", r"config\.yaml is not valid YAML \(could not determine"),
        (b"a: 2020-99-99\n", r"config\.yaml is not valid YAML \(month must be in 1..12"),
        (b"a: \xe9\n", r"config\.yaml is not valid YAML \(not UTF-8 at byte 3"),
        (None, r"config\.yaml cannot be read \(No such file or directory\); give the directory of a trained model"),
    ],
)
def test_a_damaged_configuration_of_a_run_is_refused_by_all_that_read_it(tmp_path, content, said):
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)
        checkpoint.save({"weight": torch.ones(1)}, tmp_path / "model.pth")
        with pytest.raises(ModelError, match=said):
            initialise(str(tmp_path / "model.pth"), torch.nn.Linear(1, 1, bias=False))
    for read in (load, read_config, lambda _: average(tmp_path)):
        with pytest.raises(ModelError, match=said) as error:
            read(path)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("x.y=1e-3", 1e-3),
        ("x.y=-2E+4", -2e4),
        ("x.y=.5e1", 5.0),
        ("x.y=1.0e-3", 1e-3),
        ("x.y=3", 3),
        ("x.y=true", True),
        ("x.y=[1, a]", [1, "a"]),
        ("x.y={a: 1}", {"a": 1}),
        ("x.y=a=b", "a=b"),
        ("x.y=", None),
        ("x.y=__import__('os').getcwd()", "__import__('os').getcwd()"),
        ("x.y=e5", "e5"),
    ],
)
def test_override_values_are_yaml(override, value):
    assert merge([], [override]) == {"x": {"y": value}}


def test_exponents_are_numbers_in_files_too(write):
    assert merge([write("a.yaml", "lr: 2e-3")]) == {"lr": 2e-3}


def test_overrides_come_last_and_merge_mappings(write):
    a = write("a.yaml", "conf: {a: 1, b: 2}")
    assert merge([a], ["conf.a=5", "conf={c: 3}"]) == {"conf": {"a": 5, "b": 2, "c": 3}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x: 1\ny:\n  z: 1\n  z: 2\n", r"a\.yaml:4: key 'z' is already on line 3; keep one"),
        ("x: [{y: 1, y: 2}]", r"a\.yaml:1: key 'y' is already on line 1"),
        ("- x\n", r"a\.yaml: the file is a list; a configuration fragment is a mapping"),
        ("# nothing\n", r"a\.yaml: the file is empty; a configuration fragment is a mapping"),
        ("x: 1\nno: 2\n", r"a\.yaml:2: key 'no' is not text; put it in quotes"),
        ("x: 1\ny: [1\n", r"a\.yaml:3: not valid YAML"),
        ("x: !!python/object/apply:os.getcwd []\n", r"a\.yaml:1: not valid YAML: could not determine a constructor"),
    ],
)
def test_a_faulty_file_is_refused_with_its_line(write, text, message):
    with pytest.raises(ConfigError, match=message):
        merge([write("a.yaml", text)])


def test_a_file_in_another_encoding_is_refused(write):
    Path("a.yaml").write_bytes("x: é".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"a\.yaml: not UTF-8 at byte 3; save the file as UTF-8"):
        merge(["a"])


@pytest.mark.parametrize("name", ["attention/sdmaa", "atention/sdma", "sdma", "attention/sdm.yaml"])
def test_an_unknown_fragment_names_the_nearest(write, name):
    with pytest.raises(ConfigError, match=rf"fragment '{name}' is not found in .*; did you mean attention/sdma\?$"):
        merge([name])


def test_an_unknown_fragment_lists_the_known_ones(write):
    there = r"fragment 'attention/foo' is not found in .*; attention has: .*sdma sinkhorn sma"
    with pytest.raises(ConfigError, match=there):
        merge(["attention/foo"])
    with pytest.raises(ConfigError, match=r"'nowhere/x' is not found in .*; known: .*attention/sdma .*model/tiny"):
        merge(["nowhere/x"])
    with pytest.raises(ConfigError, match="a configuration fragment has an empty name"):
        merge(["model/tiny", ""])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("x", "--set x: write --set key=value or --set key.sub=value"),
        ("=1", "--set =1: write --set key=value"),
        ("a..b=1", "--set a..b=1: write --set key=value"),
        ("n.sub.x=1", r"--set n.sub.x=1: n is 3 \(a.yaml:1\) and has no keys below it; set n itself"),
        ("l.x=1", r"--set l.x=1: l is \[1\] \(a.yaml:2\) and has no keys"),
        ("x=[1", r"--set x=\[1:1: not valid YAML"),
        ("x={a: 1, a: 2}", "key 'a' is already"),
    ],
)
def test_a_faulty_override_is_refused(write, override, message):
    a = write("a.yaml", "n: 3\nl: [1]\n")
    with pytest.raises(ConfigError, match=message):
        merge([a], [override])


def test_unknown_keys_are_named_with_origin_and_suggestion(write):
    a = write("conf/x.yaml", "encoder: a\nenocder_conf: {}\nmodel_conf:\n  ctc_wieght: 0.3\n")
    known = {"encoder", "encoder_conf", "model_conf"}
    with pytest.raises(ConfigError, match=r"conf/x.yaml:2: unknown option 'enocder_conf'; did you mean 'encoder_conf'"):
        check_keys(merge([a]), known)
    with pytest.raises(
        ConfigError, match=r"conf/x.yaml:4: unknown option 'model_conf.ctc_wieght'; did you mean 'ctc_w"
    ):
        check_keys(merge([a]), {"ctc_weight"}, "model_conf")
    with pytest.raises(ConfigError, match=r"--set enc.q=1: unknown option 'enc'; known: beam_size penalty"):
        check_keys(merge([], ["enc.q=1"]), {"beam_size", "penalty"})
    many = [f"option_{index:03d}" for index in range(100)]
    with pytest.raises(ConfigError, match=r"'enc'; the nearest of 100 known ones: (option_\d+ ?){5}$"):
        check_keys(merge([], ["enc.q=1"]), many)
    check_keys(merge([], ["encoder=b"]), known)
    check_keys(merge([], ["encoder=b"]), {"q"}, "model_conf", "sub")


def test_origin_is_the_last_that_set_the_key(write):
    a, b = write("a.yaml", "x: {y: 1, z: {w: 1}}"), write("b.yaml", "\nx: {y: 2}")
    config = merge([a, b], ["x.v.u=1"])
    assert config.origin("x", "y") == "b.yaml:2"
    assert config.origin("x", "z", "w") == "a.yaml:1"
    assert config.origin("x", "z", "absent") == "a.yaml:1"
    assert config.origin("x", "v") == config.origin("x", "v", "u") == "--set x.v.u=1"
    assert config.origin("absent") == "configuration"


def test_saved_configuration_reads_back_and_replaces_whole_files(write):
    config = merge([write("a.yaml", "b: 1\na: {lr: 2e-5, name: 中文}")])
    save(config, "exp/x/config.yaml")
    save(config, "exp/x/config.yaml")
    assert list(yaml.safe_load(Path("exp/x/config.yaml").read_text(encoding="utf-8")).items()) == list(config.items())
    assert [path.name for path in Path("exp/x").iterdir()] == ["config.yaml"]


SHARED = sorted(CONF_DIR.glob("*/*.yaml"))


@pytest.mark.parametrize("path", SHARED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shared_fragment_parses(path):
    assert merge([path])


@pytest.mark.parametrize("model", [path.stem for path in SHARED if path.parent.name == "model"])
@pytest.mark.parametrize("attention", sorted(CORES.keys() & {path.stem for path in SHARED}))
def test_every_model_takes_every_attention(model, attention):
    config = merge([f"model/{model}", f"attention/{attention}"])
    cores = [config["encoder_conf"]["attention"]]
    decoder = [config.get("decoder_conf", {}).get(key) for key in ("attention", "cross_attention")]
    cores += [chosen for chosen in decoder if chosen]
    supports = CORES[attention].supports
    assert [core["core"] for core in cores] == [attention] * (1 + supports.causal + supports.cross_attention)


def test_the_preset_for_text_is_softmax_with_heads_of_neighbours():
    assert merge(["attention/best_text"]) == merge(["attention/softmax", "modifiers/neighbours"])


def test_the_preset_for_speech_is_softmax_with_windows_of_three_widths():
    patterns = "encoder_conf.attention.head_patterns=[global,{window: 2},{window: 4},{window: 8}]"
    assert merge(["attention/best_speech"]) == merge(["attention/softmax"], [patterns])


def test_noam_peak_matches_factor_2_at_width_256():
    config = merge(["model/transformer_6x6", "update/adam_noam_25k"])
    width, warmup = config["encoder_conf"]["output_size"], config["scheduler_conf"]["warmup_steps"]
    assert math.isclose(config["optim_conf"]["lr"], 2.0 * width**-0.5 * warmup**-0.5, rel_tol=1e-4)


def test_every_folder_of_fragments_is_documented():
    folders = sorted(path.name for path in CONF_DIR.iterdir())
    for path in ("espnet_diverse/runs/config.py", "docs/architecture.md"):
        text = " ".join((ROOT / path).read_text(encoding="utf-8").split())
        assert f"{', '.join(folders)}." in text, path


def test_a_run_with_the_largest_vocabularies_is_read(tmp_path):
    tokens = [f"token{number}" for number in range(300_000)]
    listed = "".join(f"- {token}\n" for token in tokens)
    (tmp_path / "config.yaml").write_text(f"task: mt\ntoken_list:\n{listed}src_token_list:\n{listed}")
    assert load(tmp_path / "config.yaml")["src_token_list"] == tokens


def test_differences_name_each_value():
    old = {"optim": "adam", "optim_conf": {"lr": 0.1, "betas": [0.9, 0.98]}, "heads": None, "gone": {}}
    new = {"optim": "adam", "optim_conf": {"lr": 0.2, "betas": [0.9, 0.98], "eps": None}, "heads": {"pool": 8}}
    assert differences(old, new) == {
        "optim_conf.lr": "0.1 -> 0.2",
        "heads": "None -> not set",
        "gone": "{} -> not set",
        "optim_conf.eps": "not set -> None",
        "heads.pool": "not set -> 8",
    }
    assert differences(old, old) == {}


@pytest.mark.parametrize("value", ["text", "[1]", "3"])
def test_a_section_that_is_no_mapping_is_named_before_it_is_read(value):
    shown = "'text'" if value == "text" else re.escape(value)
    with pytest.raises(ConfigError, match=f"^--set model_conf={re.escape(value)}: model_conf is {shown}; give a map"):
        merge(["model/tiny"], [f"model_conf={value}"])
    merge(["model/tiny"], ["model_conf=null"])
