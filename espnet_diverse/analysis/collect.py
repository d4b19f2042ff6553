"""What every attention of a model does on one utterance, teacher-forced: weights, semantic mask, clusters, queries.

Utterances pass one at a time, so that there is no padding that could enter a figure.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from espnet.nets.pytorch_backend.transformer.attention import MultiHeadedAttention
from espnet2.train.abs_espnet_model import AbsESPnetModel
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.analysis.teacher_forcing import force

KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "decoder cross-attention",
}
# What is clustered in each kind of attention, in the order in which its core does so.
TOKENS = {"encoder": ("frames",), "decoder": ("tokens",), "cross": ("tokens", "frames")}
_ATTRIBUTES = {"self_attn": "self", "attn": "self", "src_attn": "cross"}


@dataclass(frozen=True)
class Observation:
    """What the attentions of one kind, N layers of H heads, did on one utterance.

    Attributes:
        weights: Attention weights, mixed with their masked twin where there is one, (N, H, Tq, Tk).
        semantic: Semantic masks (N, H, Tq, Tk), or None where the core has none.
        queries: Queries of the last layer (H, Tq, D).
        posteriors: Cluster probabilities (N, H, T, C) of "frames", "tokens" and "queries"; empty without clusters.
    """

    weights: Tensor
    semantic: Tensor | None
    queries: Tensor
    posteriors: dict[str, Tensor]


def attentions(model: nn.Module) -> dict[str, list[nn.Module]]:
    """The attention modules of encoder and decoder in the order of their layers, under a key of `KINDS`."""
    found = defaultdict(list)
    for name, module in model.named_modules():
        net, attribute = name.split(".")[0], _ATTRIBUTES.get(name.split(".")[-1])
        if isinstance(module, MultiHeadedAttention) and net in ("encoder", "decoder") and attribute:
            found["cross" if attribute == "cross" else net].append(module)
    return found


def observe(
    model: AbsESPnetModel, speech: NDArray, text: Sequence[int], conditions: Mapping[str, int] | None = None
) -> dict[str, Observation]:
    """Run a teacher-forced pass over one utterance; the arguments are those of `force`.

    Returns:
        What was seen, under the keys of `KINDS`. A kind is missing where the model has none, or has one whose weights
        are not one matrix a head (a block-wise encoder, a kernel that keeps no weights).
    """
    layers = attentions(model)
    watched = [part for modules in layers.values() for module in modules for part in _parts(module).values()]
    with _outputs(watched) as outputs:
        force(model, speech, text, conditions)
    return {
        kind: _observation(kind, layers[kind], outputs)
        for kind in KINDS
        if layers[kind] and all(module.attn is not None and len(module.attn) == 1 for module in layers[kind])
    }


def _parts(module: nn.Module) -> dict[str, nn.Module]:
    """Parts of an attention whose output is wanted; `q_norm` gives the queries, in ESPnet's attention too."""
    parts = {"queries": module.q_norm}
    for name in ("token_mixture", "query_mixture"):
        if (mixture := getattr(getattr(module, "core", None), name, None)) is not None:
            parts[name] = mixture
    return parts


@contextmanager
def _outputs(modules: list[nn.Module]) -> Iterator[dict[nn.Module, list]]:
    """Record what each of `modules` returns, call by call."""
    outputs = defaultdict(list)
    hooks = [module.register_forward_hook(lambda m, _, output: outputs[m].append(output)) for module in modules]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def _observation(kind: str, modules: list[nn.Module], outputs: dict[nn.Module, list]) -> Observation:
    posteriors = defaultdict(list)
    for module in modules:
        parts = _parts(module)
        for mixture, names in (("token_mixture", TOKENS[kind]), ("query_mixture", ("queries",))):
            if mixture in parts:
                for name, clustering in zip(names, outputs[parts[mixture]], strict=True):
                    posteriors[name].append(clustering.p[0])
    masks = [getattr(getattr(module, "core", None), "semantic", None) for module in modules]
    return Observation(
        weights=torch.stack([module.attn[0] for module in modules]),
        semantic=None if any(mask is None for mask in masks) else torch.stack([mask[0] for mask in masks]),
        queries=outputs[modules[-1].q_norm][0][0],
        posteriors={name: torch.stack(layers) for name, layers in posteriors.items()},
    )
