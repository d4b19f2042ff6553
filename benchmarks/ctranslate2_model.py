"""A trained transformer for translation as a model of CTranslate2 (pip install ctranslate2).

CTranslate2 has everything that such a model is made of: layer normalisation before each block, ReLU, scaled embeddings,
and positions from a table, in which ESPnet's sines and cosines are written as they are. What it takes for granted, and
ESPnet does otherwise, is put into its options: a source begins with <sos/eos> and has no end.
"""

from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

_POSITIONS = 1024


def write(model: nn.Module, args: Namespace, folder: Path) -> None:
    """Write a model in float32, from which CTranslate2 makes other types when it is loaded.

    Args:
        model: Model of task mt with softmax attention and `normalize_before`, as `load_model` gives it.
        args: Arguments that it was trained with.
        folder: Folder to write.
    """
    specs = import_module("ctranslate2.specs")
    encoder, decoder = model.encoder, model.decoder
    sizes = len(encoder.encoders), len(decoder.decoders)
    spec = specs.TransformerSpec.from_config(sizes, encoder.encoders[0].self_attn.h, pre_norm=True)
    spec.config.bos_token = spec.config.eos_token = spec.config.decoder_start_token = args.token_list[-1]
    spec.config.unk_token, spec.config.add_source_bos = args.token_list[1], True
    spec.config.layer_norm_epsilon = decoder.after_norm.eps
    _embedding(spec.encoder, spec.encoder.embeddings[0], model.frontend.embed)
    _embedding(spec.decoder, spec.decoder.embeddings, decoder.embed)
    for layer, own in zip(spec.encoder.layer, encoder.encoders, strict=True):
        _self_attention(layer.self_attention, own)
        _feed_forward(layer.ffn, own.feed_forward, own.norm2)
    for layer, own in zip(spec.decoder.layer, decoder.decoders, strict=True):
        _self_attention(layer.self_attention, own)
        source = own.src_attn
        _linear(layer.attention.linear[0], source.linear_q)
        _linear(layer.attention.linear[1], source.linear_k, source.linear_v)
        _linear(layer.attention.linear[2], source.linear_out)
        _norm(layer.attention.layer_norm, own.norm2)
        _feed_forward(layer.ffn, own.feed_forward, own.norm3)
    _norm(spec.encoder.layer_norm, encoder.after_norm)
    _norm(spec.decoder.layer_norm, decoder.after_norm)
    _linear(spec.decoder.projection, decoder.output_layer)
    spec.register_source_vocabulary(list(args.src_token_list))
    spec.register_target_vocabulary(list(args.token_list))
    spec.validate()
    spec.optimize("float32")
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def _embedding(side: Any, spec: Any, embed: nn.Sequential) -> None:
    """Embeddings and positions of a side; CTranslate2 multiplies the former by the root of their width, as ESPnet."""
    embedding, position = embed
    spec.weight = _array(embedding.weight)
    position.extend_pe(torch.zeros(1, _POSITIONS))
    side.position_encodings.encodings = _array(position.pe[0, :_POSITIONS])


def _self_attention(spec: Any, layer: nn.Module) -> None:
    own = layer.self_attn
    _linear(spec.linear[0], own.linear_q, own.linear_k, own.linear_v)
    _linear(spec.linear[1], own.linear_out)
    _norm(spec.layer_norm, layer.norm1)


def _feed_forward(spec: Any, layer: nn.Module, norm: nn.Module) -> None:
    _linear(spec.linear_0, layer.w_1)
    _linear(spec.linear_1, layer.w_2)
    _norm(spec.layer_norm, norm)


def _linear(spec: Any, *layers: nn.Linear) -> None:
    spec.weight = np.concatenate([_array(layer.weight) for layer in layers])
    spec.bias = np.concatenate([_array(layer.bias) for layer in layers])


def _norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(x: torch.Tensor) -> NDArray:
    return x.detach().numpy()
