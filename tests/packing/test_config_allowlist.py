"""Configurations of packed models: what may be chosen, and what is no harmless YAML."""

from pathlib import Path

import pytest

from espnet_diverse.errors import ModelError
from espnet_diverse.nets import DECODERS, ENCODERS, LANGUAGE_MODELS
from espnet_diverse.packing.config_allowlist import check_config, read_yaml
from espnet_diverse.training.config import merge

MODEL = Path("model.zip")


@pytest.mark.parametrize(
    ("key", "nets"),
    [("encoder", ENCODERS), ("decoder", DECODERS), ("lm", LANGUAGE_MODELS)],
    ids=lambda each: str(each)[:7],
)
def test_all_our_nets_may_be_packed(key, nets):
    for name in nets:
        check_config({key: name}, MODEL)


@pytest.mark.parametrize("name", ["model/tiny,attention/sdma", "model/mt_tiny", "model/transformer_12x6"])
def test_our_fragments_may_be_packed(name):
    check_config(dict(merge(name.split(","))), MODEL)


def test_nothing_and_either_case_are_allowed():
    check_config({"frontend": None, "encoder": "Transformer", "encoder_conf": None, "decoder_conf": {"a": 1}}, MODEL)
    check_config({}, MODEL)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"frontend": "s3prl"}, "frontend 's3prl' is not allowed .*; allowed: bert default embed patch"),
        ({"decoder": "hugging_face_transformers"}, "decoder 'hugging_face_.* may download and run code"),
        ({"extra_asr_decoder": "whisper"}, "extra_asr_decoder 'whisper' is not allowed"),
        ({"token_type": "whisper_en"}, "token_type 'whisper_en' is not allowed"),
        ({"token_type": "hugging_face"}, "token_type 'hugging_face' is not allowed"),
        ({"encoder": ["transformer"]}, r"encoder \['transformer'\] is not allowed"),
        ({"normalize_conf": [1]}, r"normalize_conf of config.yaml is \[1\]; it must be a mapping of options"),
        ({"my_conf": "x"}, "my_conf of config.yaml is 'x'; it must be a mapping of options"),
    ],
)
def test_what_may_run_code_or_is_malformed_is_refused(config, said):
    with pytest.raises(ModelError, match=f"^model.zip: {said}"):
        check_config(config, MODEL)


def test_a_mapping_is_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: [1, x]\nb: {c: null}\n")
    assert read_yaml(path, "a") == {"a": [1, "x"], "b": {"c": None}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"- 1", "contains a list, not a mapping; download the file again"),
        (b"", "contains a NoneType, not a mapping; download the file again"),
        (b"a: [1", r"is not valid YAML \(.*\); download the file again"),
        (b"a: \xff", "is not valid YAML"),
        (b"lol: &a [{}]\nb: {<<: *a}\n", "is not valid YAML .*merge keys are not allowed"),
        (b"[" * 50_000, "is not valid YAML"),
        (b"a: !!python/object/apply:os.getcwd []", "is not valid YAML .*could not determine a constructor"),
        (b" " * (1 << 24) + b"a: 1", "has 16777220 bytes; at most 16777216 are allowed; check where the file is from"),
    ],
    ids=["list", "empty", "open", "bytes", "merge", "deep", "object", "large"],
)
def test_what_is_no_harmless_mapping_is_refused_in_one_line(tmp_path, content, said):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"^shown.yaml {said}") as error:
        read_yaml(path, "shown.yaml")
    assert "\n" not in str(error.value)
