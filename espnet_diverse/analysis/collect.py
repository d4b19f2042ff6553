"""Values that the attentions of a model compute for one utterance with teacher forcing, for analysis.

They are weights, queries, and what the cores report.

Utterances are processed one at a time, so no padding enters a result.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from espnet2.train.abs_espnet_model import AbsESPnetModel
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.analysis.teacher_forcing import run_teacher_forced
from espnet_diverse.attention import HeadMap, Inspection, MultiHeadAttention
from espnet_diverse.upstream.layers import MultiHeadedAttention

KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "decoder cross-attention",
}
"""Kinds of attention, with their names in reports."""

_INPUTS = {
    "encoder": {"query inputs": ""},
    "decoder": {"query inputs": "tokens"},
    "cross": {"query inputs": "tokens", "key inputs": ""},
}
"""Description of the inputs of each kind of attention, with the keys of `Inspection.posteriors`.

"" is what the encoder reads: frames, or source tokens.
"""

VECTORS = "vectors of the source"
"""Keys of a decoder that makes vectors of the encoder's output, by a memory or a latent code."""

ATTRIBUTES = {"self_attn": "self", "attn": "self", "src_attn": "cross"}
"""Attributes of layers that are attentions, and whether they are self-attention or cross-attention."""


@dataclass(frozen=True)
class Observation:
    """Results of the attentions of one kind, N layers of H heads, for one utterance; all tensors are on the CPU.

    Attributes:
        weights: Attention weights, after any re-weighting by the core, (N, H, Tq, Tk).
        queries: Queries of the last layer that has some (H, Tq, D); None where the heads of all layers have one key.
        outputs: Outputs of the heads, (N, H, Tq, D).
        maps: Other matrices that the cores report, by name, as in `Inspection.maps`, with values (N, H, Tq, Tk).
        posteriors: Cluster probabilities (N, H, T, C) of "frames", "source tokens" or `VECTORS`, of "tokens" and of
            "queries"; empty without clusters.
        of_vectors: Whether the keys are `VECTORS`.
    """

    weights: Tensor
    queries: Tensor | None
    outputs: Tensor
    maps: dict[str, HeadMap] = field(default_factory=dict)
    posteriors: dict[str, Tensor] = field(default_factory=dict)
    of_vectors: bool = False


def attentions(model: nn.Module) -> dict[str, list[nn.Module]]:
    """Return the attention modules of encoder and decoder by kind (a key of `KINDS`), in the order of their layers."""
    modules = defaultdict(list)
    for name, module in model.named_modules():
        net, attribute = name.split(".")[0], ATTRIBUTES.get(name.split(".")[-1])
        if (
            isinstance(module, MultiHeadedAttention | MultiHeadAttention)
            and net in ("encoder", "decoder")
            and attribute
        ):
            modules["cross" if attribute == "cross" else net].append(module)
    return modules


def observe(
    model: AbsESPnetModel, source: NDArray, text: Sequence[int], conditions: Mapping[str, int] | None = None
) -> dict[str, Observation]:
    """Run a pass with teacher forcing over one utterance; takes the arguments of `run_teacher_forced`.

    Returns:
        Observations by kind (a key of `KINDS`). A kind is missing if the model has no such attention, or one that does
        not keep one matrix of weights for each head (a block-wise encoder, a core without explicit weights).
    """
    layers = attentions(model)
    modules = [module for modules in layers.values() for module in modules]
    with (
        _recorded([module.q_norm for module in modules]) as queries,
        _recorded([module.linear_out for module in modules], inputs=True) as outputs,
    ):
        run_teacher_forced(model, source, text, conditions)
    read = "source tokens" if np.issubdtype(source.dtype, np.integer) else "frames"
    observations = {}
    for kind in KINDS:
        if layers[kind] and all(module.attn is not None and len(module.attn) == 1 for module in layers[kind]):
            of_vectors = kind == "cross" and getattr(model.decoder, "reads_vectors", False)
            inputs = {key: name or (VECTORS if of_vectors else read) for key, name in _INPUTS[kind].items()}
            observations[kind] = replace(_observation(layers[kind], queries, outputs, inputs), of_vectors=of_vectors)
    return observations


@contextmanager
def _recorded(modules: list[nn.Module], inputs: bool = False) -> Iterator[dict[nn.Module, list]]:
    """Record what each of `modules` returns, or its first argument, call by call."""
    records = defaultdict(list)
    hooks = [
        module.register_forward_hook(lambda m, args, output: records[m].append(args[0] if inputs else output))
        for module in modules
    ]
    try:
        yield records
    finally:
        for hook in hooks:
            hook.remove()


def _observation(
    modules: list[nn.Module],
    queries: Mapping[nn.Module, list],
    outputs: Mapping[nn.Module, list],
    inputs: Mapping[str, str],
) -> Observation:
    """Stack what the layers report.

    `q_norm` returns the queries, and `linear_out` takes the outputs of the heads, in ESPnet's attention too.
    """
    reports = [layer.core.inspect() if hasattr(layer, "core") else Inspection() for layer in modules]  # not in ESPnet's
    maps = {
        name: replace(shown, values=torch.stack([report.maps[name].values[0] for report in reports]).cpu())
        for name, shown in reports[0].maps.items()
        if all(name in report.maps for report in reports)
    }
    posteriors = {
        inputs.get(name, name): torch.stack([report.posteriors[name][0] for report in reports]).cpu()
        for name in reports[0].posteriors
        if all(name in report.posteriors for report in reports)
    }
    weights = torch.stack([module.attn[0] for module in modules]).cpu()
    merged = torch.stack([outputs[module.linear_out][0][0] for module in modules]).cpu()  # (N, Tq, H D)
    heads = merged.unflatten(-1, (weights.size(1), -1)).transpose(1, 2)
    projected = [queries[module.q_norm] for module in modules if module.q_norm in queries]  # not of heads with one key
    return Observation(weights, projected[-1][0][0].cpu() if projected else None, heads, maps, posteriors)
