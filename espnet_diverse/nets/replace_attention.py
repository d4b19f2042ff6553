"""Exchanging ESPnet's attention modules for ours, inside a net that ESPnet has built."""

import inspect

from espnet.nets.pytorch_backend.transformer.attention import (
    LegacyRelPositionMultiHeadedAttention,
    MultiHeadedAttention,
    RelPositionMultiHeadedAttention,
)
from espnet.nets.pytorch_backend.transformer.contextual_block_encoder_layer import ContextualBlockEncoderLayer
from torch import nn

from espnet_diverse.attention import MultiHeadAttention, build_core, build_selection
from espnet_diverse.errors import ConfigError

_RELATIVE = (RelPositionMultiHeadedAttention, LegacyRelPositionMultiHeadedAttention)
_SHARED = ("linear_out", "q_norm", "k_norm")
_BY_HEAD = ("linear_q", "linear_k", "linear_v")
_BY_HEAD_RELATIVE = ("linear_pos", "pos_bias_u", "pos_bias_v")


class Attention(MultiHeadAttention, MultiHeadedAttention):
    """Our shell under ESPnet's type, so that ESPnet's attention plots recognise it."""


def exchange(layers: nn.Module, attribute: str, attention: dict | None, causal: bool = False) -> None:
    """Put our attention in the place of ESPnet's in every layer, keeping ESPnet's initial weights.

    Args:
        layers: The layers, each holding its attention as `attribute`.
        attribute: `self_attn`, `src_attn` or `attn`.
        attention: `{"core": name, **options of the core}`, and `selection`, `SelectionOptions` by name; None is
            softmax, which equals ESPnet's attention.
        causal: Whether it is self-attention that never looks ahead.

    Raises:
        ConfigError: The core or an option is unknown, or ESPnet's attention of this layer has no counterpart here.
    """
    for layer in layers:
        theirs = getattr(layer, attribute)
        if isinstance(layer, ContextualBlockEncoderLayer) and (attention or {}).get("selection"):
            raise ConfigError("head selection does not fit the contextual block encoder; choose another encoder")
        kind = {"cross": attribute == "src_attn", "causal": causal}
        setattr(layer, attribute, _counterpart(theirs, attention or {"core": "softmax"}, kind))


def _counterpart(theirs: nn.Module, attention: dict, kind: dict[str, bool]) -> Attention:
    if not isinstance(theirs, MultiHeadedAttention):
        raise ConfigError(
            f"attention of type {type(theirs).__name__} cannot be exchanged; "
            "choose selfattn, rel_selfattn or legacy_rel_selfattn"
        )
    if getattr(theirs, "zero_triu", False):
        raise ConfigError("zero_triu: true is not supported with an exchanged attention; set it to false")
    relative = isinstance(theirs, _RELATIVE)
    size = theirs.h * theirs.d_k
    options = dict(attention)
    try:
        selection = build_selection(options.pop("selection", None), theirs.h)
        core = build_core(options.pop("core", "softmax"), size, theirs.h, **kind, **options)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error
    ours = Attention(size, theirs.h, core, theirs.dropout_rate, relative, selection)
    by_head = _BY_HEAD + (_BY_HEAD_RELATIVE if relative else ())
    for name in _SHARED + (by_head if selection is None else ()):  # a pool has initial weights of its own
        setattr(ours, name, getattr(theirs, name))
    return ours


def signature_with(base: type, **added: object) -> inspect.Signature:
    """The signature of ESPnet's class `base` with options added, so that `--print_config` shows all of them."""
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default) for name, default in added.items()
    ]
    signature = inspect.signature(base)
    return signature.replace(parameters=[*signature.parameters.values(), *options])
