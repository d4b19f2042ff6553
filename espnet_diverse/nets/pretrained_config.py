"""The architecture of a pretrained text encoder as plain data: types, options and values that it may have.

transformers builds hundreds of types from any options, and some of these name a repository of the Hub, whose files it
then fetches (`backbone`), or code (`attn_implementation`, `auto_map`). The architecture comes from the config.json of
an encoder or the config.yaml of a trained model, which may be from somebody else. So only what is listed here reaches
transformers.
"""

from collections.abc import Mapping
from typing import Any

from espnet_diverse.errors import ConfigError
from espnet_diverse.foreign_yaml import shortened

TYPES = ("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
"""Values of model_type."""

_COUNT, _LAYERS, _INDEX = range(1, 1_000_001), range(1001), range(1_000_001)
_ACTIVATION = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")
OPTIONS: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "max_position_embeddings", "type_vocab_size"), _COUNT),
    **dict.fromkeys(("hidden_size", "intermediate_size", "embedding_size", "dim", "hidden_dim"), _COUNT),
    **dict.fromkeys(("num_hidden_layers", "n_layers"), _LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_heads", "num_hidden_groups", "inner_group_num"), _COUNT),
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"), float),
    **dict.fromkeys(("layer_norm_eps", "initializer_range"), float),
    **dict.fromkeys(("hidden_act", "activation"), _ACTIVATION),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), _INDEX),
    "sinusoidal_pos_embds": (False, True),
    "position_embedding_type": ("absolute",),
    **dict.fromkeys(("is_decoder", "is_encoder_decoder", "add_cross_attention"), (False,)),
}
"""Allowed values by option: a range of integers, `float` for numbers of 0 to 1, or some values."""

WITHOUT_EFFECT = frozenset(
    {
        *("_name_or_path", "architectures", "auto_map", "dtype", "language", "name", "torch_dtype"),
        *("transformers_version", "finetuning_task", "gradient_checkpointing", "id2label", "label2id"),
        *("output_past", "problem_type", "tie_word_embeddings", "tie_weights_", "use_cache"),
        *("chunk_size_feed_forward", "classifier_dropout", "classifier_dropout_prob", "qa_dropout"),
        *("seq_classif_dropout", "summary_activation", "summary_last_dropout", "summary_type"),
        *("summary_use_proj", "directionality", "pooler_fc_size", "pooler_num_attention_heads"),
        *("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "cls_token_id", "mask_token_id"),
        *("sep_token_id", "down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"),
    }
)
"""Options of published encoders that do not change embeddings: of other programs, of heads, of training."""


def checked(config: Mapping[str, Any], source: object) -> dict[str, Any]:
    """The type and the options of an architecture that have an effect.

    Args:
        config: The architecture.
        source: Where it is from, for messages.

    Raises:
        ConfigError: The type, an option or a value is not allowed.
    """
    kind = config.get("model_type")
    if kind not in TYPES:
        allowed = f"allowed are {' '.join(TYPES)}"
        raise ConfigError(f"{source}: model_type {shortened(repr(kind))} is not allowed for an encoder; {allowed}")
    for name, value in config.items():
        if name in OPTIONS and not _fits(name, value):
            allowed = f"allowed are {_shown(OPTIONS[name])}"
            raise ConfigError(f"{source}: {name} {shortened(repr(value))} is not allowed; {allowed}")
        if name not in (*OPTIONS, *WITHOUT_EFFECT, "model_type"):
            what = f"option {shortened(repr(name))}, {shortened(repr(value))}, is not allowed"
            raise ConfigError(f"{source}: {what}; allowed are {' '.join(OPTIONS)}")
    return {name: value for name, value in config.items() if name in OPTIONS or name == "model_type"}


def _fits(name: str, value: object) -> bool:
    allowed = OPTIONS[name]
    if isinstance(allowed, range):
        return (type(value) is int and value in allowed) or (value is None and allowed is _INDEX)
    if allowed is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1  # nor is NaN
    return value in allowed


def _shown(allowed: Any) -> str:
    if isinstance(allowed, range):
        return f"whole numbers from {allowed[0]} to {allowed[-1]}"
    return "numbers from 0 to 1" if allowed is float else " ".join(map(str, allowed))
