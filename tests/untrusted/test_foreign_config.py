"""Configurations of packed models and of runs: allowed choices and their bounds."""

from pathlib import Path

import pytest

from espnet_diverse.errors import ModelError
from espnet_diverse.nets import DECODERS, ENCODERS, LANGUAGE_MODELS
from espnet_diverse.runs.config import merge
from espnet_diverse.untrusted.foreign_config import TRUST, check_config, named_files, told_task

MODEL = Path("model.zip")


def fused(*parts):
    """A configuration with a fused frontend of `parts`."""
    return {"frontend": "fused", "frontend_conf": {"frontends": list(parts)}}


def huggingface(**options):
    """A configuration with the frontend of pretrained encoders."""
    return {"frontend": "huggingface", "frontend_conf": options}


@pytest.mark.parametrize("packed", [True, False])
def test_pretrained_encoders_and_fused_frontends_are_allowed(packed):
    parts = [{"frontend_type": "default", "n_fft": 128}, {"frontend_type": "huggingface", "model": "owner/name"}]
    for config in (fused(*parts), huggingface(model=None), huggingface(model="hf:owner/name", layer=0)):
        check_config(config, MODEL, packed)


def test_the_run_of_a_user_may_name_a_folder():
    check_config(huggingface(model="/downloads/encoder"), Path("config.yaml"), packed=False)
    with pytest.raises(ModelError, match="model 3 of a frontend is not allowed; it must be owner/name .* or a folder"):
        check_config(huggingface(model=3), Path("config.yaml"), packed=False)


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
        ({"frontend": "whisper"}, "frontend 'whisper' is not allowed"),
        ({"frontend": "fused"}, "frontends in frontend_conf of config.yaml is None; it must be a list of frontends"),
        (fused("x"), r"frontends in frontend_conf of config.yaml is \['x'\]; it must be a list"),
        (fused({"frontend_type": "s3prl"}), "frontend_type 's3prl' of a fused frontend is not allowed; allowed: def"),
        (fused({"n_mels": 80}), "frontend_type None of a fused frontend is not allowed"),
        (fused({"frontend_type": ["default"]}), r"frontend_type \['default'\] of a fused frontend is not allowed"),
        (
            fused({"frontend_type": "default", "n_fft": 2**40}),
            "frontend_conf.frontends.n_fft of config.yaml is 109951",
        ),
        (
            fused({"frontend_type": "huggingface", "model": "/x"}),
            "model '/x' of a frontend is not allowed; it must be",
        ),
        (huggingface(model="/etc"), "model '/etc' of a frontend is not allowed; it must be owner/name of the Hugging"),
        (huggingface(model="../x/y"), "model '../x/y' of a frontend is not allowed"),
        (huggingface(model=["x"]), r"model \['x'\] of a frontend is not allowed"),
        (huggingface(architecture={"hidden_size": 10**9}), "frontend_conf.architecture.hidden_size of .* 1000000000"),
        (
            {"frontend": "s3prl"},
            "frontend 's3prl' is not allowed .*; allowed: bert default embed fused huggingface",
        ),
        ({"decoder": "hugging_face_transformers"}, "decoder 'hugging_face_.* may download and run code"),
        ({"extra_asr_decoder": "whisper"}, "extra_asr_decoder 'whisper' is not allowed"),
        ({"token_type": "whisper_en"}, "token_type 'whisper_en' is not allowed"),
        ({"g2p": "g2p_en"}, "g2p 'g2p_en' is not allowed"),  # nltk fetches its data
        ({"g2p": "pyopenjtalk_kana"}, "g2p 'pyopenjtalk_kana' is not allowed .*; allowed: korean_jaso pypinyin_g2p"),
        ({"encoder": ["transformer"]}, r"encoder \['transformer'\] is not allowed"),
        ({"normalize_conf": [1]}, r"normalize_conf of config.yaml is \[1\]; it must be a mapping of options"),
        ({"my_conf": "x"}, "my_conf of config.yaml is x; it must be a mapping of options"),
        ({"token_list": "/dev/zero"}, "token_list of config.yaml is /dev/zero; it must be the list of tokens itself"),
        ({"src_token_list": [1]}, "src_token_list of config.yaml is .1.; it must be the list of tokens itself"),
        (
            {"token_list": ["a"], "token_type": None},
            "token_type of config.yaml is None; it must be one of bpe char hugging_face phn word",
        ),
        (
            {"src_token_list": ["a"], "src_token_type": None},
            "src_token_type of config.yaml is None; it must be one of bpe char hugging_face",
        ),
        ({"encoder_conf": {"num_blocks": 10**9}}, r"encoder_conf.num_blocks of .* 1000000000; allowed are 0 to 1000$"),
        (
            {"decoder_conf": {"max_positions": 10**6}},
            "decoder_conf.max_positions of .* 1000000; allowed",
        ),
        ({"frontend_conf": {"hop_length": 1}}, "frontend_conf.hop_length of config.yaml is 1; allowed are 16 to 65536"),
        ({"frontend_conf": {"n_fft": 2**40}}, "frontend_conf.n_fft of config.yaml is 1099511627776; allowed are 16"),
        ({"decoder_conf": {"a": [{"b": 1e7}]}}, r"decoder_conf.a.b of config.yaml is 10000000.0; allowed are -1000000"),
        ({"lm_conf": {"unit": 10**400}}, r"lm_conf.unit of config.yaml is 10{196}\.\.\.; allowed are"),
        ({"encoder_conf": {"rate": float("nan")}}, "encoder_conf.rate of config.yaml is nan"),
        ({"encoder_conf": {"rate": float("inf")}}, "encoder_conf.rate of config.yaml is inf"),
        ({"bpemodel": ["x"]}, r"bpemodel of config.yaml is \['x'\]; it must be a path"),
        ({"normalize_conf": {"stats_file": 3}}, "stats_file of config.yaml is 3; it must be a path"),
        ({"task": ["asr"]}, r"task of config.yaml is \['asr'\]; it must be one of asr st mt lm cls electra"),
        ({"task": "asr_transducer"}, "a model of task asr_transducer is not possible here; use espnet2.bin.asr_transd"),
        ({"joint_network_conf": {}}, "a model of task asr_transducer is not possible here"),
        ({"promptencoder": "whisper"}, "promptencoder 'whisper' is not allowed"),
        ({3: 1}, "key 3 of config.yaml is not text"),
        ({"x_conf": "y" * 10**6}, r"x_conf of config.yaml is y{197}\.\.\.; it must be"),
        ({"encoder": "y" * 10**6}, r"encoder 'y{196}\.\.\. is not allowed"),
    ],
)
def test_unsafe_and_malformed_options_are_refused(config, said):
    with pytest.raises(ModelError, match=f"^model.zip: {said}"):
        check_config(config, MODEL)


def test_a_run_may_have_other_parts_if_its_user_says_so(monkeypatch):
    beats = {"encoder": "beats", "encoder_conf": {"beats_ckpt_path": "/x"}}
    with pytest.raises(ModelError, match=f"config.yaml: encoder 'beats' is not allowed in a run.*; set {TRUST}=1 if"):
        check_config(beats, Path("config.yaml"), packed=False)
    monkeypatch.setenv(TRUST, "1")
    check_config(beats, Path("config.yaml"), packed=False)
    with pytest.raises(ModelError, match="not allowed in a packed model"):
        check_config(beats, MODEL)
    with pytest.raises(ModelError, match="num_blocks"):
        check_config({"encoder_conf": {"num_blocks": 10**9}}, MODEL, packed=False)


@pytest.mark.parametrize(
    ("config", "task"),
    [
        ({"model": "espnet_ctc"}, "s2t_ctc"),
        ({"model": "diverse", "promptencoder": "transformer"}, "s2t_ctc"),
        ({"model": "espnet", "promptencoder": None}, "asr"),
        ({"model": "espnet", "preprocessor": "s2t"}, "s2t"),
        ({"model": "lm"}, "lm"),
        ({"lm": "seq_rnn"}, "lm"),
        ({"extra_asr_decoder": None, "src_token_list": ["a"]}, "st"),
        ({"model": "mt", "src_token_list": ["a"]}, "mt"),
        ({"decoder": "rnn", "joint_network_conf": {}}, "asr_transducer"),
        ({"model": "espnet", "decoder": "transducer", "joint_net_conf": {}}, "asr"),
        ({}, "asr"),
    ],
)
def test_a_task_is_told_by_the_parts_of_a_model(config, task):
    assert told_task(config) == task


def test_the_files_that_a_configuration_names():
    config = {"bpemodel": "a", "src_bpemodel": None, "normalize_conf": {"stats_file": "b", "norm_vars": True}}
    assert [section[key] for section, key in named_files(config)] == ["a", "b"]
    assert named_files({"normalize_conf": None}) == []
