"""Replaces ESPnet's attention modules by ours inside a net that ESPnet has built."""

import inspect
from collections.abc import Iterable, Sequence

from torch import nn

from espnet_diverse.attention import Core, MultiHeadAttention, attention_parts, core_class
from espnet_diverse.attention.head_patterns import are_by_layer
from espnet_diverse.attention.modifiers.lambda_init import LambdaInit
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import must_be
from espnet_diverse.upstream.layers import (
    ContextualBlockConformerLayer,
    ContextualBlockEncoderLayer,
    LegacyRelPositionMultiHeadedAttention,
    MultiHeadedAttention,
    RelPositionMultiHeadedAttention,
)

RELATIVE = (RelPositionMultiHeadedAttention, LegacyRelPositionMultiHeadedAttention)
"""ESPnet's attentions with relative position."""
_SOFTMAX = {"core": "softmax"}
_SHARED = ("linear_out", "q_norm", "k_norm")
_BY_HEAD = ("linear_q", "linear_k", "linear_v")
_BY_HEAD_RELATIVE = ("linear_pos", "pos_bias_u", "pos_bias_v")


class WeightlessAttention(MultiHeadAttention):
    """Our attention with a core that has no explicit weights.

    It is not of ESPnet's type, because ESPnet plots the weights of every module of that type.
    """

    def check_length(self, *lengths: int) -> None:
        """Check numbers of queries or keys.

        Raises:
            DataError: The core does not support that many.
        """
        try:
            super().check_length(*lengths)
        except ValueError as error:
            raise DataError(str(error)) from error


class Attention(WeightlessAttention, MultiHeadedAttention):
    """Our attention under ESPnet's type, so that ESPnet's attention plots recognise it."""


def replace_attention(
    layers: Iterable[nn.Module],
    attribute: str,
    attention: dict | None,
    causal: bool = False,
    net: str = "net",
    length: int | None = None,
    with_memory: type[WeightlessAttention] | None = None,
) -> None:
    """Replace ESPnet's attention by ours in every layer, keeping ESPnet's initial weights and mode.

    Args:
        layers: The layers, which have their attention as `attribute`.
        attribute: Name of the attention: `self_attn`, `src_attn` (cross-attention) or `attn`.
        attention: `{"core": name, **options of the core}` and the parts of `attention.build.PARTS`, such as
            `selection`; None is softmax, which equals ESPnet's attention. With `layers`, numbers from 1 on, it is the
            attention of these layers, and the others have softmax. `head_patterns` may be a list for each layer.
        causal: Whether it is self-attention in which no query attends to later keys.
        net: Name of the net, for messages.
        length: Greatest number of positions of a call, if it is known.
        with_memory: Class of attention whose keys include a memory's, see `nets/memory`; None has no memory.

    Raises:
        ConfigError: The core or an option is unknown, the core does not support this use, ESPnet's attention of this
            layer has no counterpart here, or the net does not have these layers.
    """
    layers = list(layers)
    by_layer = _by_layer(*_in_layers(attention or _SOFTMAX, len(layers), net), net)
    for number, layer in enumerate(layers, start=1):
        original = getattr(layer, attribute)
        where = f"{net}, {attribute} of layer {number}"
        if isinstance(layer, ContextualBlockEncoderLayer | ContextualBlockConformerLayer) and selects_heads(attention):
            raise ConfigError(
                f"{where}: head selection does not fit the contextual block encoder; choose another encoder"
            )
        kind = {"cross": attribute == "src_attn" or with_memory is not None, "causal": causal}
        options = by_layer.get(number, _SOFTMAX)
        ours = _counterpart(original, options, kind, attribute == "src_attn", where, length, with_memory)
        for part in ours.modules():
            if isinstance(part, LambdaInit):
                part.set_layer(number)
        setattr(layer, attribute, ours)


def _in_layers(attention: dict, count: int, net: str) -> tuple[dict, Sequence[int]]:
    """Return options of an attention without `layers`, and the numbers of the layers that have it.

    Raises:
        ConfigError: It is no mapping, the net of `count` layers does not have these, or all layers must share it.
    """
    if not isinstance(attention, dict):
        raise must_be(f"{net}: attention", "a mapping of options, such as {core: sdma}", attention)
    options = dict(attention)
    chosen = read_layers(options.pop("layers", None))
    if chosen is None:
        return options, range(1, count + 1)
    if strange := [number for number in chosen if number > count]:
        raise ConfigError(f"{net}: layers {strange} do not exist; it has layers 1 to {count}")
    core = options.get("core", "softmax")
    if options.get("position") is not None:
        raise ConfigError(f"{net}: position applies to all layers; leave out layers")
    if core_class(core).connect is not Core.connect:
        raise ConfigError(f"{net}: attention {core!r} hands a state from layer to layer; leave out layers")
    return options, chosen


def _by_layer(options: dict, chosen: Sequence[int], net: str) -> dict[int, dict]:
    """Return the options of each of the chosen layers by its number.

    Raises:
        ConfigError: `head_patterns` has lists for another number of layers.
    """
    if not are_by_layer(options.get("head_patterns")):
        return dict.fromkeys(chosen, options)
    patterns = options["head_patterns"]
    if len(patterns) != len(chosen):
        has = f"head_patterns has lists for {len(patterns)} layers, but {len(chosen)} have this attention"
        raise ConfigError(f"{net}: {has}; give a list for each, or one list for all")
    return {number: options | {"head_patterns": of_layer} for number, of_layer in zip(chosen, patterns, strict=True)}


def read_layers(chosen: object) -> list[int] | None:
    """Check the option `layers` of an attention, numbers of layers from 1 on; None is all layers.

    Raises:
        OptionError: It is something else.
    """
    numbers = chosen if isinstance(chosen, list | tuple) else [0]
    if chosen is not None and not (numbers and all(type(number) is int and number > 0 for number in numbers)):
        raise must_be("layers", "a list of numbers of layers, from 1 on", chosen)
    return None if chosen is None else list(numbers)


def selects_heads(attention: dict | None) -> bool:
    """Return whether options of an attention, as `replace_attention` takes them, ask for head selection."""
    selection = (attention or {}).get("selection") or {}
    return not isinstance(selection, dict) or selection.get("strategy", "none") != "none"


def _counterpart(
    original: nn.Module,
    attention: dict,
    kind: dict[str, bool],
    of_source: bool,
    where: str,
    length: int | None,
    with_memory: type[WeightlessAttention] | None,
) -> WeightlessAttention:
    if original is None:
        raise ConfigError(
            f"{where}: the layer has no attention to replace; set use_attn: true and cgmlp_weight below 1"
        )
    if not isinstance(original, MultiHeadedAttention):
        raise ConfigError(
            f"{where}: attention of type {type(original).__name__} cannot be replaced; "
            "choose selfattn, rel_selfattn or legacy_rel_selfattn"
        )
    if getattr(original, "zero_triu", False):
        raise ConfigError(f"{where}: zero_triu: true is not supported with a replaced attention; set it to false")
    relative = isinstance(original, RELATIVE)
    size = original.h * original.d_k
    try:
        memory = with_memory is not None and not of_source
        cached = kind["causal"] or of_source  # decoders decode with a cache
        uses = ["padding", *["relative_position"] * relative, *["cached_decoding"] * cached]
        core, parts = attention_parts(attention, size, original.h, **kind, uses=uses, memory=memory)
        core.supports.check_length(core.name, length or 0)
        if with_memory is not None and core.state_rows:
            raise ValueError(f"attention {core.name!r} with handed_over has no memory; leave out either")
        if with_memory is not None and parts["patterns"] is not None:
            raise ValueError("head_patterns do not fit a memory, whose slots have no positions; leave out either")
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from error
    attention_class = with_memory or (Attention if core.supports.explicit_weights else WeightlessAttention)
    ours = attention_class(size, original.h, core, original.dropout_rate, **parts)
    by_head = _BY_HEAD + (_BY_HEAD_RELATIVE if relative else ())
    taken = _SHARED if parts["qk_norm"] is None else _SHARED[:1]
    for part in taken + (by_head if ours.selection is None else ()):  # a pool has its own initial weights
        setattr(ours, part, getattr(original, part))
    if core.tied == "keys":
        ours.linear_k = ours.linear_q
    if core.tied == "values":
        ours.linear_v = ours.linear_k
    return ours.train(original.training)


def signature_with(base: type, **added: object) -> inspect.Signature:
    """Return the signature of ESPnet's class `base` with our options added, so that `--print_config` shows them all.

    An option that `base` has gets our default.
    """
    signature = inspect.signature(base)
    overridden = {
        name: signature.parameters[name].replace(default=added[name]) for name in added & signature.parameters.keys()
    }
    ours = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in added.items()
        if name not in overridden
    }
    return signature.replace(parameters=list({**signature.parameters, **overridden, **ours}.values()))
