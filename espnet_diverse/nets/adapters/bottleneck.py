"""Bottleneck adapters: a small residual net after every layer of a trained model, one for each language or domain.

Bapna and Firat, "Simple, Scalable Adaptation for Neural Machine Translation", EMNLP 2019. With the layer's output x,

    x + W_u ReLU(W_d LN(x) + b_d) + b_u,

where W_d has `bottleneck` rows. All parameters, including the layer norm's, belong to one value of a condition (a
language or a domain), or to a combination such as a pair of languages. ESPnet's modules keep their names, so a trained
model loads into the model with adapters; the added parameters are `encoders.<n>.adapter.*` and
`decoders.<n>.adapter.*`.

Initially W_u and b_u are zero and W_d is drawn as in `nn.Linear`. A new adapter therefore returns x unchanged,
adaptation starts from the loss of the trained model, and gradients reach both matrices.
Cost: N * bottleneck * (2 M + 1) + 3 N M parameters for each layer of width M with N adapters; a sample computes one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import cast

import torch
import torch.nn.functional as F
from espnet2.asr.encoder.branchformer_encoder import BranchformerEncoderLayer
from espnet2.asr.encoder.e_branchformer_encoder import EBranchformerEncoderLayer
from torch import Tensor, nn

from espnet_diverse.attention.selection.selection_options import check_lists_of_names
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.condition_rows import ConditionRows, read_options
from espnet_diverse.option_checks import Options, flag, number
from espnet_diverse.upstream.layers import ConformerLayer, DecoderLayer, EncoderLayer

_LAYERS = (EncoderLayer, ConformerLayer, BranchformerEncoderLayer, EBranchformerEncoderLayer, DecoderLayer)
_WITH_STATISTICS = (nn.BatchNorm1d, nn.BatchNorm2d)


@dataclass(frozen=True)
class AdapterOptions(Options):
    """Options of the adapters of one net.

    Attributes:
        by: The condition that an adapter is chosen by, `lang`, `tgtlang` or `domain`, or a list of conditions.
        conditions: Values of each condition in the order of their indices; training fills them in.
        combinations: With several conditions, the combinations of values that have an adapter, for example the trained
            directions of translation, `[[es, en], [fr, en]]`; by default all.
        bottleneck: Number of rows of W_d.
        freeze_base: Whether only the adapters are trained, see the function `freeze_base`.
    """

    by: str | Sequence[str]
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    combinations: Sequence[Sequence[str]] | None = None
    bottleneck: int = number(256, least=1)
    freeze_base: bool = flag(True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.combinations is not None:
            check_lists_of_names("combinations", self.combinations)


class Adapters(nn.Module):
    """The N adapters of one layer.

    Every parameter has the adapter as its first dimension, and a forward pass gathers the rows of its samples. All
    parameters therefore take part in every step, as distributed training needs.

    Args:
        size: Model width M.
        rows: Returns the index of the adapter of each sample.
        bottleneck: Number of rows of W_d.
        freeze_base: Whether only the adapters are trained.
    """

    def __init__(self, size: int, rows: ConditionRows, bottleneck: int = 256, freeze_base: bool = True):
        super().__init__()
        self.rows = rows
        self.freeze_base = freeze_base
        self.norm_weight = nn.Parameter(torch.empty(len(rows), size))
        self.norm_bias = nn.Parameter(torch.empty(len(rows), size))
        self.down_weight = nn.Parameter(torch.empty(len(rows), bottleneck, size))
        self.down_bias = nn.Parameter(torch.empty(len(rows), bottleneck))
        self.up_weight = nn.Parameter(torch.empty(len(rows), size, bottleneck))
        self.up_bias = nn.Parameter(torch.empty(len(rows), size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw W_d and b_d as in `nn.Linear`; set layer norms to the identity, and W_u and b_u to zero."""
        bound = 1 / sqrt(self.down_weight.size(-1))
        nn.init.ones_(self.norm_weight)
        nn.init.uniform_(self.down_weight, -bound, bound)
        nn.init.uniform_(self.down_bias, -bound, bound)
        for zero in (self.norm_bias, self.up_weight, self.up_bias):
            nn.init.zeros_(zero)

    espnet_initialization_fn = reset_parameters  # ESPnet's `init` redraws all parameters, then calls this

    def forward(self, x: Tensor) -> Tensor:
        """Apply to each sample of x (B, T, M) the adapter of its conditions -> (B, T, M).

        Raises:
            DataError: A condition of a sample is not in the open scope, or its values have no adapter.
        """
        rows = self.rows(len(x))
        normed = F.layer_norm(x, x.shape[-1:])
        normed = normed * self.norm_weight[rows].unsqueeze(1) + self.norm_bias[rows].unsqueeze(1)
        hidden = F.relu(_linear(normed, self.down_weight[rows], self.down_bias[rows]))
        return x + _linear(hidden, self.up_weight[rows], self.up_bias[rows])


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (B, T, in), weight (B or 1, out, in), bias (B or 1, out) -> (B, T, out)."""
    if len(weight) == 1:
        return F.linear(x, weight[0], bias[0])
    return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))


def insert_adapters(layers: Iterable[nn.Module], options: Mapping[str, object] | None) -> None:
    """Add an `adapter` to every layer, which is applied to its output.

    Args:
        layers: ESPnet's encoder or decoder layers.
        options: `AdapterOptions` by name; None adds no adapters.

    Raises:
        ConfigError: An option is unknown or has a value that is not allowed, or the layers return more than their
            output and its mask.
    """
    if options is None:
        return
    chosen = read_options(AdapterOptions, "adapter", options)
    for layer in layers:
        if not isinstance(layer, _LAYERS):
            raise ConfigError(
                f"adapters do not fit a {type(layer).__name__}, which returns more than its output; "
                "choose a transformer, conformer, branchformer or e_branchformer encoder"
            )
        rows = ConditionRows("adapter", chosen.by, chosen.conditions, chosen.combinations)
        layer.adapter = Adapters(layer.size, rows, chosen.bottleneck, chosen.freeze_base)
        layer.register_forward_hook(_adapt, with_kwargs=True)


def _adapt(layer: nn.Module, _args: tuple, named: dict[str, object], output: tuple) -> tuple:
    """Forward hook that applies the adapter to the first output of a layer.

    In cached decoding that output is the cache, to which the adapter has been applied before, and one new position.
    """
    x, *rest = output
    adapter = cast(Adapters, layer.adapter)
    if isinstance(x, tuple):  # with its relative positions
        return ((adapter(x[0]), *x[1:]), *rest)
    if named.get("cache") is not None:
        return (torch.cat([x[:, :-1], adapter(x[:, -1:])], dim=1), *rest)
    return (adapter(x), *rest)


def freeze_base(model: nn.Module) -> None:
    """Freeze all parameters except the adapters', if an adapter of the model has `freeze_base`.

    Batch norm works as in evaluation, with the statistics of the base; dropout does not change.
    """
    adapters = [module for module in model.modules() if isinstance(module, Adapters)]
    if not any(adapter.freeze_base for adapter in adapters):
        return
    model.requires_grad_(False)
    for adapter in adapters:
        adapter.requires_grad_(True)
    keep_statistics(model)


def keep_statistics(model: nn.Module) -> None:
    """Let batch norms whose parameters are all frozen work as in evaluation, with their present statistics."""
    for module in model.modules():
        frozen = not any(parameter.requires_grad for parameter in module.parameters())
        if isinstance(module, _WITH_STATISTICS) and frozen:
            module.register_forward_pre_hook(_evaluate)


def _evaluate(module: nn.Module, _) -> None:
    """Forward pre-hook, because `train()` of a net sets all its modules to training."""
    module.eval()
