"""The architecture of a pretrained encoder as plain data: types, options and values that it may have.

transformers builds hundreds of types from any options, and some of these name a repository of the Hub, whose files it
then fetches (`backbone`), or code (`attn_implementation`, `auto_map`). The architecture comes from the config.json of
an encoder or the config.yaml of a trained model, which may be from somebody else. So only what is listed here reaches
transformers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from espnet_diverse.errors import ConfigError
from espnet_diverse.untrusted.foreign_yaml import shortened

COUNT, LAYERS, INDEX = range(1, 1_000_001), range(1001), range(1_000_001)
_LONGEST = 32


@dataclass(frozen=True)
class Allowed:
    """Values that an architecture may have.

    Attributes:
        types: Values of model_type.
        options: Allowed values by option: a range of integers, `float` for numbers of 0 to 1, some values, or a list
            with a range, for lists of such integers.
        without_effect: Options that are left out.
    """

    types: tuple[str, ...]
    options: Mapping[str, Any]
    without_effect: frozenset[str] = frozenset()


TYPES = ("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
"""Types of text encoders."""

ACTIVATION = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")
OPTIONS: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "max_position_embeddings", "type_vocab_size"), COUNT),
    **dict.fromkeys(("hidden_size", "intermediate_size", "embedding_size", "dim", "hidden_dim"), COUNT),
    **dict.fromkeys(("num_hidden_layers", "n_layers"), LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_heads", "num_hidden_groups", "inner_group_num"), COUNT),
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"), float),
    **dict.fromkeys(("layer_norm_eps", "initializer_range"), float),
    **dict.fromkeys(("hidden_act", "activation"), ACTIVATION),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), INDEX),
    "sinusoidal_pos_embds": (False, True),
    "position_embedding_type": ("absolute",),
    **dict.fromkeys(("is_decoder", "is_encoder_decoder", "add_cross_attention"), (False,)),
}
"""Allowed values by option of text encoders, see `Allowed`."""

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

TEXT = Allowed(TYPES, OPTIONS, WITHOUT_EFFECT)
"""Text encoders."""


def checked(config: Mapping[str, Any], source: object, allowed: Allowed = TEXT) -> dict[str, Any]:
    """Return the type and the options of an architecture that have an effect.

    Args:
        config: The architecture.
        source: Its origin, for messages.
        allowed: What it may be.

    Raises:
        ConfigError: The type, an option or a value is not allowed.
    """
    kind = config.get("model_type")
    if kind not in allowed.types:
        named = f"allowed are {' '.join(allowed.types)}"
        raise ConfigError(f"{source}: model_type {shortened(repr(kind))} is not allowed for an encoder; {named}")
    chosen = {name: value for name, value in config.items() if name != "model_type"}
    return {"model_type": kind} | checked_options(chosen, source, allowed)


def checked_options(config: Mapping[str, Any], source: object, allowed: Allowed) -> dict[str, Any]:
    """Return the options that have an effect, without the type; see `checked`."""
    for name, value in config.items():
        if name in allowed.options and not _fits(allowed.options[name], value):
            named = f"allowed are {_shown(allowed.options[name])}"
            raise ConfigError(f"{source}: {name} {shortened(repr(value))} is not allowed; {named}")
        if name not in allowed.options and name not in allowed.without_effect:
            reason = f"option {shortened(repr(name))}, {shortened(repr(value))}, is not allowed"
            raise ConfigError(f"{source}: {reason}; allowed are {' '.join(allowed.options)}")
    return {name: value for name, value in config.items() if name in allowed.options}


def _fits(allowed: Any, value: object) -> bool:
    if isinstance(allowed, list):
        if not isinstance(value, list | tuple) or len(value) > _LONGEST:
            return False
        return all(_fits(allowed[0], item) for item in value)
    if isinstance(allowed, range):
        return (type(value) is int and value in allowed) or (value is None and allowed is INDEX)
    if allowed is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1  # nor is NaN
    return value in allowed


def _shown(allowed: Any) -> str:
    if isinstance(allowed, list):
        return f"lists of up to {_LONGEST} {_shown(allowed[0])}"
    if isinstance(allowed, range):
        return f"whole numbers from {allowed[0]} to {allowed[-1]}"
    return "numbers from 0 to 1" if allowed is float else " ".join(map(str, allowed))
