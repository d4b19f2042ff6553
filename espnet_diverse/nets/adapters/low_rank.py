"""Adapters of low rank: a trained linear map plus a product of two small matrices, and only these are trained.

Hu et al. 2022, "LoRA: Low-rank adaptation of large language models", equation (3) and section 4.1:

    h = W_0 x + b + (alpha / r) B A x,    A (r, in), B (out, r)

Initially B is zero and A is drawn like the weights of `nn.Linear`, so a new adapter changes nothing. There is one pair
A, B for all samples, or one for each language or domain (`by`), which each sample of a batch chooses for itself. With
`use_dora` each output has a magnitude too, see `functional/low_rank.py`, initially the length of its weights.

Parameters have the names that ESPnet and the package loralib give them: `lora_A` and `lora_B` next to `weight`. In
evaluation mode one pair for all is part of `weight`, which is the form of ESPnet's files, so the model must be in
evaluation mode when its weights are saved or loaded. Pairs by condition, and magnitudes, which ESPnet does not have,
stay apart from it in both modes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import sqrt
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.attention.selection.selection_options import check_lists_of_names
from espnet_diverse.attention.self_attentive_pooling import SelfAttentivePooling
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.low_rank import low_rank, magnitude_scale
from espnet_diverse.nets.condition_rows import ConditionRows
from espnet_diverse.nets.memory.segments import MemoryAttention
from espnet_diverse.nets.recomputation import check_recomputed
from espnet_diverse.option_checks import Options, choice, flag, must_be, number
from espnet_diverse.upstream.layers import ContextualBlockConformerLayer, ContextualBlockEncoderLayer

_NAME = "adapter_conf"
_IN_PARTS = (MemoryAttention, ContextualBlockEncoderLayer, ContextualBlockConformerLayer)
"""Modules that put the segments or blocks of a sequence into the batch."""


@dataclass(frozen=True)
class LowRankOptions(Options):
    """Options of adapters of low rank: the options of ESPnet's `create_lora_adapter`, and the conditions.

    Attributes:
        rank: Rank r.
        alpha: Factor of the product of the matrices, which is also divided by the rank.
        dropout_rate: Dropout probability of the input of A.
        target_modules: The linear maps and embeddings: ends of their names, such as `linear_q`, or patterns of whole
            names with `*`, such as `encoder.encoders.*.linear_?`.
        bias_type: Which biases are trained; ESPnet does nothing with it.
        use_dora: Whether the magnitude of each output is trained in addition to the direction of its weights.
        by: The condition that a pair of matrices is chosen by, `lang`, `tgtlang` or `domain`, or a list of conditions;
            without it all samples have one pair.
        conditions: Values of each condition in the order of their indices; training fills them in.
        combinations: With several conditions, the combinations of values that have a pair; by default all.
    """

    rank: int = number(8, least=1)
    alpha: int = number(8, least=1)
    dropout_rate: float = number(0.0, least=0, below=1)
    target_modules: Sequence[str] = ("query",)
    bias_type: str | None = choice("none", "all", "lora_only", none=True)
    use_dora: bool = flag(False)
    by: str | Sequence[str] | None = None
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    combinations: Sequence[Sequence[str]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.target_modules
        if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
            raise must_be("target_modules", "a list of names of modules, such as [linear_q, linear_v]", names)
        if self.combinations is not None:
            check_lists_of_names("combinations", self.combinations)


class LowRank(nn.Module, ABC):
    """Base class of a map with a weight and its adapter.

    Args:
        scaling: Factor of the product of the matrices, alpha / r.
        rows: Returns the index of the pair of matrices of each sample; None if all have one pair.

    Attributes:
        merged: Whether the product of the matrices is part of `weight`.
    """

    weight: Tensor
    lora_A: nn.Parameter  # noqa: N815  (loralib's name)
    lora_B: nn.Parameter  # noqa: N815
    lora_magnitude: nn.Parameter | None

    def __init__(self, scaling: float, rows: ConditionRows | None = None):
        super().__init__()
        self.scaling, self.rows, self.merged = scaling, rows, False
        self._unmerged: Tensor | None = None
        self.register_parameter("lora_magnitude", None)

    @property
    def merges(self) -> bool:
        """Whether the product of the matrices becomes part of `weight` in evaluation."""
        return self.rows is None and self.lora_magnitude is None

    @torch.no_grad()
    def train(self, mode: bool = True) -> "LowRank":
        """Set the mode; in evaluation one pair of matrices without magnitudes becomes part of `weight`.

        Training continues with exactly the weight that it had, which is in the file of the frozen part of the model.
        """
        super().train(mode)
        if not self.merges or self.merged != mode:
            return self
        if not mode:
            self._unmerged = self.weight.clone()
            self.weight.add_(self.update())
        elif self._unmerged is None:  # weights were loaded
            self.weight.sub_(self.update())
        else:
            self.weight.copy_(self._unmerged)
            self._unmerged = None
        self.merged = not mode
        return self

    def _load_from_state_dict(self, *args) -> None:
        super()._load_from_state_dict(*args)
        self._unmerged = None

    def update(self) -> Tensor:
        """Compute the change of `weight`, by the condition in the open scope if there are pairs by condition.

        Raises:
            DataError: The scope does not have the condition.
        """
        rows = slice(None) if self.rows is None else self.rows(1)[0]
        change = self.scaling * (self.lora_B[rows] @ self.lora_A[rows])
        if self.lora_magnitude is None:
            return change
        scale = magnitude_scale(self.weight, change, self.lora_magnitude[rows])
        return scale.unsqueeze(-1) * (self.weight + change) - self.weight

    @torch.no_grad()
    def take_lengths(self, of_one_pair: bool) -> None:
        """Set the magnitudes, if there are any, to the lengths of weights that were loaded without magnitudes.

        Args:
            of_one_pair: Whether matrices were loaded too. A file with one pair of them has their product in its weight.
        """
        if self.lora_magnitude is None:
            return
        change = self.scaling * (self.lora_B @ self.lora_A)
        if of_one_pair and self.rows is None:
            self.weight.sub_(change)
        self.lora_magnitude.copy_(torch.linalg.vector_norm(self.weight + change, dim=-1))

    @torch.no_grad()
    def merged_weight(self) -> nn.Parameter:
        """Return the weight with its update, which then needs no adapter; see `update`."""
        return nn.Parameter(self.weight.clone() if self.merged else self.weight + self.update())

    @abstractmethod
    def plain(self) -> nn.Module:
        """Return a map without an adapter that computes the same, by the condition in the open scope."""


class LowRankLinear(LowRank):
    """A linear map with an adapter.

    It is not an `nn.Linear`, so that no code mistakes its weight for the whole map.

    Args:
        linear: The linear map, whose parameters are shared.
        options: Options of the adapter.
    """

    bias: nn.Parameter | None

    def __init__(self, linear: nn.Linear, options: LowRankOptions):
        by = options.by
        rows = None if by is None else ConditionRows(_NAME, by, options.conditions, options.combinations)
        super().__init__(options.alpha / options.rank, rows)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight = linear.weight
        self.register_parameter("bias", linear.bias)
        self.lora_dropout = nn.Dropout(options.dropout_rate)
        sets = () if self.rows is None else (len(self.rows),)
        self.lora_A = nn.Parameter(self.weight.new_empty(*sets, options.rank, self.in_features))
        self.lora_B = nn.Parameter(self.weight.new_zeros(*sets, self.out_features, options.rank))
        bound = 1 / sqrt(self.in_features)
        nn.init.uniform_(self.lora_A, -bound, bound)
        if options.use_dora:
            lengths = torch.linalg.vector_norm(self.weight.detach(), dim=-1)
            self.lora_magnitude = nn.Parameter(lengths.expand(*sets, -1).clone())

    def forward(self, x: Tensor) -> Tensor:
        """Apply the map to x (B, ..., in), with the adapter of the conditions of each sample -> (B, ..., out).

        Raises:
            DataError: A condition of a sample is not in the open scope, or its values have no adapter.
        """
        if self.merged:
            return F.linear(x, self.weight, self.bias)
        rows = None if self.rows is None else self.rows(len(x))
        a, b = self._of(self.lora_A, rows), self._of(self.lora_B, rows)
        change = self.scaling * low_rank(self.lora_dropout(x), a, b)
        if self.lora_magnitude is None:
            return F.linear(x, self.weight, self.bias) + change
        scales = magnitude_scale(self.weight, self.scaling * (self.lora_B @ self.lora_A), self.lora_magnitude)
        scale = self._of(scales, rows)
        y = (F.linear(x, self.weight) + change) * scale.view(len(scale), *[1] * (x.dim() - 2), -1)
        return y if self.bias is None else y + self.bias

    @staticmethod
    def _of(sets: Tensor, rows: Tensor | None) -> Tensor:
        """Return the set of each sample, (N, ...), or the one for all, (1, ...)."""
        return sets.unsqueeze(0) if rows is None else sets[rows]

    def plain(self) -> nn.Linear:
        """Return a linear map that computes the same, see `LowRank.plain`."""
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None, device="meta")
        linear.weight = self.merged_weight()
        linear.register_parameter("bias", self.bias)
        return linear.train(self.training)


class LowRankEmbedding(LowRank):
    """An embedding with an adapter, one for all samples, as loralib has it: A begins with zeros, B is drawn.

    Args:
        embedding: The embedding, whose weights are shared.
        options: Options of the adapter.
    """

    def __init__(self, embedding: nn.Embedding, options: LowRankOptions):
        super().__init__(options.alpha / options.rank)
        self.weight = embedding.weight
        self.lora_A = nn.Parameter(self.weight.new_zeros(options.rank, embedding.num_embeddings))
        self.lora_B = nn.Parameter(self.weight.new_empty(embedding.embedding_dim, options.rank))
        nn.init.normal_(self.lora_B)

    def update(self) -> Tensor:
        """Compute the change of `weight`."""
        return super().update().T

    def forward(self, tokens: Tensor) -> Tensor:
        """Embed token indices (...) -> (..., M)."""
        y = F.embedding(tokens, self.weight)
        if self.merged:
            return y
        return y + self.scaling * F.linear(F.embedding(tokens, self.lora_A.T), self.lora_B)

    def plain(self) -> nn.Embedding:
        """Return an embedding that computes the same."""
        return nn.Embedding.from_pretrained(self.merged_weight(), freeze=False).train(self.training)


def add_low_rank(model: nn.Module, options: LowRankOptions) -> None:
    """Add adapters of low rank to the modules of a model that the options name, and set the model to evaluation.

    Args:
        model: The model.
        options: Options of the adapters.

    Raises:
        ConfigError: No module has such a name, one of them takes no adapter, or its layer is recomputed in the backward
            pass and the adapter depends on conditions.
    """
    chosen = [name for name, _ in model.named_modules() if _is_named(name, options.target_modules)]
    if not chosen:
        has = " ".join(dict.fromkeys(name.rpartition(".")[2] for name, part in model.named_modules() if _fits(part)))
        raise ConfigError(f"{_where(options.target_modules)}: the model has no such module; it has: {has}")
    for name in chosen:
        parent_name, _, child_name = name.rpartition(".")
        parent, module = model.get_submodule(parent_name), model.get_submodule(name)
        if fault := _fault(model, parent, name, options):
            raise ConfigError(f"{_where(options.target_modules)}: {name} is {fault}; choose other modules")
        if isinstance(module, nn.Embedding):
            setattr(parent, child_name, LowRankEmbedding(module, options))
        else:
            setattr(parent, child_name, LowRankLinear(cast(nn.Linear, module), options))
    for name, net in model.named_modules() if options.by is not None else ():
        layers = getattr(net, "encoders", None) or getattr(net, "decoders", None) or ()
        check_recomputed(layers, getattr(net, "gradient_checkpoint_layers", ()), name or type(net).__name__)
    model.eval()


def adapted(model: nn.Module) -> Iterator[tuple[str, LowRank]]:
    """Yield the modules of a model that have an adapter of low rank, with their names."""
    yield from ((name, module) for name, module in model.named_modules() if isinstance(module, LowRank))


def merge_low_rank(model: nn.Module, by_condition: bool = True) -> None:
    """Replace adapters of low rank by maps that compute the same without one, in place.

    Args:
        model: The model.
        by_condition: Whether to replace pairs of matrices by condition too, by the condition in the open scope.

    Raises:
        DataError: The scope does not have the condition.
    """
    for name, module in list(adapted(model)):
        if by_condition or module.rows is None:
            parent, _, child_name = name.rpartition(".")
            setattr(model.get_submodule(parent), child_name, module.plain())


def _where(names: Sequence[str]) -> str:
    return f"{_NAME}.target_modules [{', '.join(names)}]"


def _is_named(name: str, chosen: Sequence[str]) -> bool:
    """Return whether a name ends with one of `chosen`, as in ESPnet, or matches a pattern among them."""
    return any(fnmatchcase(name, target) if set(target) & set("*?[") else name.endswith(target) for target in chosen)


def _fits(module: nn.Module) -> bool:
    return type(module) in (nn.Linear, nn.Embedding)


def _fault(model: nn.Module, parent: nn.Module, name: str, options: LowRankOptions) -> str:
    """Return the reason why a module takes no adapter, or ""."""
    module, child_name = model.get_submodule(name), name.rpartition(".")[2]
    if not _fits(module):
        return f"a {type(module).__name__}, and adapters are for Linear and Embedding"
    if isinstance(parent, MultiHeadAttention) and (parent.selection is not None or parent.core.tied):
        tied = f"{parent.core.name!r} with tied {parent.core.tied}"
        reason = "with head selection" if parent.selection is not None else tied
        return f"of an attention {reason}, whose projections take no adapter"
    if isinstance(parent, MultiHeadAttention) and child_name != "linear_out" and _compares_parameters(parent):
        return "of an attention whose disagreement compares the weights of its projections"
    if isinstance(parent, SelfAttentivePooling) or type(parent).__name__ == "WavLMAttention":
        return f"of a {type(parent).__name__}, which reads the weights of its maps"
    owners = [other for other, value in model.named_parameters(remove_duplicate=False) if value is module.weight]
    if len(owners) > 1:
        return f"a map that shares its weight with {next(o for o in owners if o != f'{name}.weight')}"
    if options.use_dora and isinstance(module, nn.Embedding):
        return "an Embedding, whose rows have no magnitudes (use_dora)"
    if options.by is not None and (child_name in ("linear_pos", "linear_p") or isinstance(module, nn.Embedding)):
        return "a map of positions or tokens, which do not belong to samples, and cannot depend on conditions (by)"
    if options.by is not None and any(isinstance(outer, _IN_PARTS) for outer in _enclosing(model, name)):
        return "a map of segments or blocks, whose batch is not one of samples, and cannot depend on conditions (by)"
    return ""


def _compares_parameters(attention: MultiHeadAttention) -> bool:
    return attention.disagreement is not None and attention.disagreement.options.of == "parameters"


def _enclosing(model: nn.Module, name: str) -> Iterator[nn.Module]:
    while name := name.rpartition(".")[0]:
        yield model.get_submodule(name)
