"""A transformer over all hypotheses of a batch of utterances, one position per step, with cached keys and values.

The hypotheses of an utterance share most of their prefixes: they are paths of a tree that grows by W nodes per step.
Keys and values of a node are computed once and never moved; when the beam is pruned, only the table of the nodes in
each hypothesis's prefix changes. The W hypotheses are W queries over the nodes of their utterance, so that the batch of
every attention is the batch of utterances: source keys are not copied for each hypothesis, the condition ids of the
utterances are used as they are, and nodes that several hypotheses share are read once. Nodes that are no longer in any
prefix are removed from time to time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention import Core, KVCache, MultiHeadAttention
from espnet_diverse.attention.pruning import pruned
from espnet_diverse.cpu.fast_linear import joined, speed_up
from espnet_diverse.decoding.search.hypothesis_memory import HypothesisMemory
from espnet_diverse.functional.running_sums import Sums
from espnet_diverse.nets.adapters.low_rank import adapted
from espnet_diverse.nets.memory import SegmentAttention
from espnet_diverse.nets.replace_attention import replace_attention
from espnet_diverse.scope import current, scope

_TIDY_EVERY = 16
"""Steps between removals of unused nodes: a removal copies the others; without it attention masks the unused nodes."""

_COMBINATIONS_KEPT = 8
"""Maximum number of combinations of values of conditions whose selected heads are cached as plain attention."""


class Attention(nn.Module):
    """Attention of one layer; its own parameters are copies and not part of the model.

    Args:
        own: Self-attention.
        source: Cross-attention, None where the layer has none.
        joint: Linear layer that projects queries, keys and values of self-attention together. By default it is made
            from `own`, except with head selection, which multiplies with some of the rows, or adapters by condition.
    """

    def __init__(self, own: MultiHeadAttention, source: MultiHeadAttention | None, joint: nn.Module | None = None):
        super().__init__()
        self.own, self.source, self.joint = own, source, joint
        if joint is None and own.selection is None and next(adapted(own), None) is None:
            self.joint = joined([own.linear_q, own.linear_k, own.linear_v])

    def selects(self) -> bool:
        """Return whether heads are selected by condition."""
        return any(part is not None and part.selection is not None for part in (self.own, self.source))

    def masks_heads(self) -> bool:
        """Return whether heads are masked, which may change from one batch to the next."""
        return any(part is not None and part.head_mask is not None for part in (self.own, self.source))

    def of_values(self) -> "Attention":
        """Plain attention with the heads that the values of conditions in the open scope select.

        Selecting them again at each step is slow.
        """
        one = Attention(pruned(self.own), None if self.source is None else pruned(self.source), self.joint)
        speed_up(one)
        return one


class _Nodes:
    """Cached keys and values of one layer at all nodes, (B, H, N, ...) each; the storage grows by doubling."""

    def __init__(self):
        self.count = 0
        self.store: KVCache | None = None
        self.sums: Sums | None = None

    def add(self, new: KVCache) -> KVCache:
        """Append (B, H, W, ...) and return all (B, H, N, ...)."""
        total = self.count + new.k.size(2)
        if self.store is None:
            self.store = new.of_keys(lambda x: x[:, :, :0])
        if total > self.store.k.size(2):
            self.store = self.store.of_keys(lambda x: F.pad(x, (0, 0, 0, max(64, total))))
        for x, y in zip(self.store[:3], new[:3], strict=True):
            if x is not None:
                x[:, :, self.count : total] = y
        self.count = total
        return self.first(total)

    def first(self, count: int) -> KVCache:
        """Return the first nodes, and the sums over nodes before them."""
        return self.store.of_keys(lambda x: x[:, :, :count])._replace(sums=self.sums)

    def select(self, nodes: Tensor) -> None:
        """Keep the nodes (B, N') of each utterance."""
        index = nodes[:, None, :, None]
        self.store = self.store.of_keys(lambda x: x.gather(2, index.expand(*x.shape[:2], -1, x.size(-1))))
        self.count = nodes.size(1)

    def keep(self, rows: Tensor) -> None:
        """Keep the utterances `rows`."""
        self.store = self.first(self.count).keep(rows)
        self.sums = self.store.sums


class PrefixScorer(ABC):
    """log p(token | hypothesis) by a transformer for W hypotheses of each of B utterances.

    Args:
        layers: Layers with `self_attn`, and perhaps `src_attn`, ESPnet's or ours; ESPnet's are replaced by ours.

    Attributes:
        attention: Attention of each layer.
    """

    def __init__(self, layers: Iterable[nn.Module]):
        self.layers = list(layers)
        for layer in self.layers:
            for name in ("self_attn", "src_attn"):
                if not isinstance(getattr(layer, name, None), MultiHeadAttention | None):
                    replace_attention([layer], name, None, causal=name == "self_attn")  # ours gives the same result
        self.attention = nn.ModuleList(
            Attention(layer.self_attn, getattr(layer, "src_attn", None)) for layer in self.layers
        )
        self._of_combination: dict[tuple[tuple[str, int], ...], list[Attention]] = {}

    def begin(self) -> None:
        """Start a new batch of utterances, whose condition ids are in the open scope."""
        self.step = 0
        self.chosen = self._choose()
        self.nodes = [_Nodes() for _ in self.layers]
        self.behind: Tensor | None = None  # (B, W, N): whether a node is in the hypothesis's prefix
        by_segments = [attention.own for attention in self.chosen if isinstance(attention.own, SegmentAttention)]
        self.memory = HypothesisMemory(by_segments) if by_segments else None
        self.settled = 0  # nodes that were there when nodes were last removed
        cores = [type(attention.own.core) for attention in self.chosen]
        self.has_sums = self.memory is None and all(core.accumulate is not Core.accumulate for core in cores)

    def score(self, tokens: Tensor) -> Tensor:
        """Log probabilities (B, W, V) of the next token, given the last token of each hypothesis (B, W)."""
        return self._output(self._advance(tokens)).log_softmax(-1)

    def _advance(self, tokens: Tensor) -> Tensor:
        """Output (B, W, M) of the last layer for the last token of each hypothesis (B, W), which becomes a node."""
        if self.memory is not None and self.memory.is_full:
            self._begin_segment(self.memory)
        mask = torch.eye(tokens.size(1), dtype=torch.bool, device=tokens.device).expand(len(tokens), -1, -1)
        mask = self._visible(mask, tokens)
        if self.memory is not None:
            self.memory.valid.append(mask.diagonal(dim1=-2, dim2=-1))
        self.behind = mask if self.behind is None else torch.cat([self.behind, mask], -1)
        x = self._through_layers(self._embed(tokens))
        self.step += 1
        return x

    def _through_layers(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self.layers):
            x = self._layer(layer, index, x)
        return x

    def extend(self, parents: Tensor) -> None:
        """Replace the hypotheses by extensions of the hypotheses `parents` (B, W)."""
        self.behind = self.behind.gather(1, parents.unsqueeze(-1).expand(-1, -1, self.behind.size(-1)))
        for layer in self.nodes:
            layer.sums = None if layer.sums is None else layer.sums.extend(parents)
        if self.memory is not None:
            self.memory.extend(parents)
        if self.step % _TIDY_EVERY == 0:
            self._tidy()

    def keep(self, rows: Tensor) -> None:
        """Keep only the utterances `rows`."""
        self.behind = self.behind[rows]
        if self.memory is not None:
            self.memory.keep(rows)
        for layer in self.nodes:
            layer.keep(rows)

    def _begin_segment(self, memory: HypothesisMemory) -> None:
        """Replace the tree by one whose nodes are the slots of each hypothesis."""
        self.nodes = [_Nodes() for _ in self.layers]
        for attention, nodes, slots in zip(self.chosen, self.nodes, memory.next_segment(), strict=True):
            nodes.add(attention.own.cache_kv(slots))
        batch, width = self.behind.shape[:2]
        mask = torch.eye(width, dtype=torch.bool, device=self.behind.device)
        self.behind = mask.repeat_interleave(slots.size(1) // width, -1).expand(batch, -1, -1)

    def _tidy(self) -> None:
        """Remove nodes that are in no prefix, or in sums; a memory needs the nodes of its segment."""
        summed = self._accumulate() if self.settled and self.has_sums else 0
        behind = self.behind[..., summed:]
        needed = behind.any(1)
        self.settled = int(needed.sum(1).max())
        nodes = needed.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, : self.settled]
        if self.memory is not None:
            self.memory.select(nodes, behind.size(-1))
        self.behind = behind.gather(2, nodes.unsqueeze(1).expand(-1, behind.size(1), -1))
        for layer in self.nodes:
            layer.select(nodes + summed)

    def _accumulate(self) -> int:
        """Move the first `settled` nodes into sums; return the number of nodes that are in them."""
        old, sums = self.behind[..., : self.settled], self.nodes[0].sums
        alike = (old.unsqueeze(1) == old.unsqueeze(2)).all(-1)  # (B, W, W): hypotheses with the same prefix
        if sums is not None and sums.of is not None:
            alike &= sums.of.unsqueeze(1) == sums.of.unsqueeze(2)
        hypotheses = torch.arange(old.size(1), device=old.device)
        first = hypotheses.where(alike, old.size(1)).amin(-1)
        distinct = first == hypotheses
        count = int(distinct.sum(1).max())
        of = (distinct.cumsum(1) - 1).gather(1, first) if count > 1 else None
        selected = distinct.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :count]
        mask = old.gather(1, selected.unsqueeze(-1).expand(-1, -1, self.settled))
        new_sums = []
        for attention, nodes in zip(self.chosen, self.nodes, strict=True):
            cache = nodes.first(self.settled)
            earlier = None if cache.sums is None else cache.sums.extend(selected)
            new_sums.append(attention.own.accumulate(cache._replace(sums=earlier), mask)._replace(of=of))
        for nodes, summed in zip(self.nodes, new_sums, strict=True):
            nodes.sums = summed
        return self.settled

    def _visible(self, mask: Tensor, tokens: Tensor) -> Tensor:
        return mask

    @abstractmethod
    def _embed(self, tokens: Tensor) -> Tensor:
        """Inputs (B, W, M) of the first layer for the last token of each hypothesis (B, W)."""

    @abstractmethod
    def _layer(self, layer: nn.Module, index: int, x: Tensor) -> Tensor:
        """Output (B, W, M) of a layer for the last tokens."""

    @abstractmethod
    def _output(self, x: Tensor) -> Tensor:
        """Scores (B, W, V) of the next token, which need not be normalised."""

    def _self_attention(self, index: int) -> Callable[[Tensor], Tensor]:
        def attend(x: Tensor) -> Tensor:
            attention = self.chosen[index]
            q, new = attention.own.project_qkv(x, attention.joint)
            keys, visible, length = self.nodes[index].add(new), self.behind, self.step + 1
            if self.memory is not None:
                self.memory.add(index, x)
                visible, length = self.memory.visible(index, visible), self.step % self.memory.segment + 1
            return attention.own.attend_cached(q, x, keys, visible, length)

        return attend

    def _choose(self) -> Sequence[Attention]:
        """Attention of each layer; plain attention where all utterances have the same selected heads."""
        if not any(attention.selects() for attention in self.attention):
            return self.attention
        if any(attention.masks_heads() for attention in self.attention):
            return self.attention  # a pruned copy would keep the mask
        open_scope = current()
        values = {name: sorted(set(ids)) for name, ids in open_scope.lists().items()}
        if any(len(ids) > 1 for ids in values.values()):
            return self.attention
        combination = tuple((condition, *ids) for condition, ids in values.items())
        if combination not in self._of_combination:
            if len(self._of_combination) == _COMBINATIONS_KEPT:
                self._of_combination.clear()
            alike = {condition: ids[:1] for condition, ids in open_scope.conditions.items()}  # for batches of any size
            with scope(alike, host=values, collect=False):
                self._of_combination[combination] = [attention.of_values() for attention in self.attention]
        return self._of_combination[combination]
