"""Architectures of pretrained encoders: what may be built, and what is refused before transformers sees it."""

import dataclasses

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.frontends.pretrained_config import OPTIONS, TYPES, WITHOUT_EFFECT, checked

BERT = {"model_type": "bert", "hidden_size": 8, "layer_norm_eps": 1e-12, "pad_token_id": None, "is_decoder": False}


def test_options_without_effect_are_left_out():
    assert checked({**BERT, "architectures": ["BertModel"], "id2label": {0: "a"}}, "x") == BERT


@pytest.mark.parametrize("kind", TYPES)
def test_all_options_of_the_types_are_known(kind):
    common = {option.name for option in dataclasses.fields(CONFIG_MAPPING["bert"].__mro__[1])}
    own = {option.name for option in dataclasses.fields(CONFIG_MAPPING[kind])} - common
    assert own and own <= OPTIONS.keys() | WITHOUT_EFFECT
    checked(CONFIG_MAPPING[kind]().to_diff_dict(), "x")  # as an earlier version has it in the config.yaml of a run


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model_type": "table-transformer"}, "model_type 'table-transformer' .* allowed are albert bert"),
        ({"model_type": None}, "model_type None"),
        ({"model_type": ["bert"]}, r"model_type \['bert'\]"),
        ({"backbone": "evil/backbone"}, "option 'backbone', 'evil/backbone'"),
        ({"use_pretrained_backbone": True}, "option 'use_pretrained_backbone', True"),
        ({"attn_implementation": "owner/kernel"}, "option 'attn_implementation', 'owner/kernel'"),
        ({"_attn_implementation": "owner/kernel"}, "option '_attn_implementation'"),
        ({"quantization_config": {"quant_method": "x"}}, "option 'quantization_config'"),
        ({"name_or_path": "evil/x"}, "option 'name_or_path'"),
        ({3: 1}, "option 3, 1"),
        ({"hidden_act": "os.system"}, "hidden_act 'os.system' .* allowed are gelu"),
        ({"hidden_act": ["gelu"]}, r"hidden_act \['gelu'\]"),
        ({"hidden_size": 10**7}, "hidden_size 10000000 .* whole numbers from 1 to 1000000"),
        ({"hidden_size": True}, "hidden_size True"),
        ({"num_hidden_layers": -1}, "num_hidden_layers -1 .* from 0 to 1000"),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers 2.0"),
        ({"hidden_dropout_prob": float("nan")}, "hidden_dropout_prob nan .* numbers from 0 to 1"),
        ({"hidden_dropout_prob": "0.1"}, "hidden_dropout_prob '0.1'"),
        ({"is_decoder": True}, "is_decoder True"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key'"),
        ({"x" * 10**5: "y" * 10**5}, r"option 'x{196}\.\.\., 'y{196}\.\.\."),
    ],
)
def test_anything_else_is_refused(changed, said):
    with pytest.raises(ConfigError, match=f"^config.json: {said}"):
        checked(BERT | changed, "config.json")
