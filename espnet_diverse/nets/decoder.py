"""ESPnet's transformer decoder with a choice of self-attention, cross-attention and memories, adapters, a start tag."""

import torch
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from torch import Tensor

from espnet_diverse.attention import Stream
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.adapters.bottleneck import insert_adapters
from espnet_diverse.nets.memory import MemoryAttention, add_memory, build_source_memory
from espnet_diverse.nets.no_position import remove_absolute_position
from espnet_diverse.nets.recomputation import check_recomputed
from espnet_diverse.nets.replace_attention import replace_attention, signature_with
from espnet_diverse.nets.start_tag import insert_start_tag
from espnet_diverse.nets.stream import connect_to_source
from espnet_diverse.scope import current

_OURS = dict.fromkeys(("attention", "cross_attention", "memory", "cross_memory", "adapter", "start_tag"))


class DiverseTransformerDecoder(TransformerDecoder):
    """ESPnet's transformer decoder; without options its output and state dict equal ESPnet's.

    Args:
        args: Positional arguments of ESPnet's decoder.
        attention: Causal self-attention, `{"core": name, **options of the core}`; None is softmax.
        cross_attention: Attention to the encoder's output, given in the same way.
        memory: `kind` and options of a memory of the target for self-attention, see `nets/memory`; None attends to the
            whole prefix.
        cross_memory: The same for a memory of the encoder's output for cross-attention, see `nets/memory/source.py`;
            None attends to the whole output.
        adapter: `AdapterOptions` by name; None adds no adapters.
        start_tag: `StartTagOptions` by name; None keeps the embedding of <sos/eos> as the first input.
        options: Options of ESPnet's decoder.

    Attributes:
        state_rows: Number of rows before the frames of the encoder's output that cross-attention starts from; see
            `nets/stream.py`.

    Raises:
        ConfigError: An option is unknown or has a value that is not allowed, a core does not support causal
            self-attention, cross-attention or cached decoding, or `gradient_checkpoint_layers` has a layer that cannot
            be recomputed.
    """

    __signature__ = signature_with(TransformerDecoder, **_OURS)

    def __init__(
        self,
        *args,
        attention: dict | None = None,
        cross_attention: dict | None = None,
        memory: dict | None = None,
        cross_memory: dict | None = None,
        adapter: dict | None = None,
        start_tag: dict | None = None,
        **options,
    ):
        super().__init__(*args, **options)
        net, self.by_segments = type(self).__name__, memory is not None
        remove_absolute_position(self, attention)
        if memory is None:
            replace_attention(self.decoders, "self_attn", attention, causal=True, net=net)
        else:
            add_memory(self.decoders, attention, memory, causal=True, net=net)
        source_class = None if cross_memory is None else MemoryAttention
        replace_attention(self.decoders, "src_attn", cross_attention, net=net, with_memory=source_class)
        src_attn, self.source_memory = self.decoders[0].src_attn, None
        if cross_memory is not None:
            self.source_memory = build_source_memory(src_attn.h * src_attn.d_k, src_attn.h, cross_memory, net)
        self.state_rows = connect_to_source(self.decoders)
        insert_adapters(self.decoders, adapter)
        insert_start_tag(self.embed, start_tag)
        check_recomputed(self.decoders, self.gradient_checkpoint_layers, net)

    def forward(self, hs_pad: Tensor, hlens: Tensor, ys_in_pad: Tensor, ys_in_lens: Tensor, *args, **options):
        """hs_pad (B, Tk, M), ys_in_pad (B, Tq) -> ESPnet's result: scores (B, Tq, V), lengths (B,).

        The open scope receives the target's padding, because the mask of cross-attention does not show it.
        """
        shared = current()
        shared.query_mask = lengths_to_mask(ys_in_lens, ys_in_pad.size(1)) if shared.collect else None
        hs_pad, hlens = self.shorten(hs_pad, hlens)
        return super().forward(hs_pad, hlens, ys_in_pad, ys_in_lens, *args, **options)

    @property
    def reads_vectors(self) -> bool:
        """Whether cross-attention reads vectors made from the encoder's output instead of its positions."""
        return self.source_memory is not None

    def shorten(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Shorten the encoder's output to what cross-attention reads: (B, T, M), (B,) -> (B, K, M), (B,).

        Without `cross_memory` it is the whole output.
        """
        if self.source_memory is None:
            return source, lengths
        return self.source_memory(source, lengths, self.decoders[0].src_attn)

    def shorten_masked(self, source: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Shorten as `shorten` does, with a mask instead of lengths: (B, T, M), (B, 1, T) -> (B, K, M), (B, 1, K)."""
        if not self.reads_vectors:
            return source, mask
        full_lengths = torch.full((len(source),), source.size(1), device=source.device)
        source, lengths = self.shorten(source, full_lengths if mask is None else mask.sum(-1).squeeze(1))
        return source, lengths_to_mask(lengths, source.size(1)).unsqueeze(1)

    def forward_one_step(
        self, tgt: Tensor, tgt_mask: Tensor, memory: Tensor, memory_mask: Tensor | None = None, **options
    ):
        """Compute ESPnet's cached step: tgt (B, T), memory (B, Tk, M), memory_mask (B, 1, Tk) -> scores (B, V), cache.

        The memories of target and source are recomputed at each step; `decoding/search` keeps them.
        """
        memory, memory_mask = self.shorten_masked(memory, memory_mask)
        position = None if options.get("cache") is None else tgt.size(1) - 1  # without a cache all are computed
        stream = Stream(memory_mask, query_position=position)
        return super().forward_one_step(tgt, tgt_mask, memory, stream, **options)

    def forward_partially_AR(self, *args, **options):  # noqa: N802 (ESPnet's name)
        """ESPnet's partially autoregressive step.

        Raises:
            ConfigError: The decoder has rows of the encoder, memories, adapters or patterns of heads in
                cross-attention, which ESPnet's step would not apply.
        """
        used = {
            "handed_over": self.state_rows,
            "memories": self.by_segments or self.reads_vectors,
            "adapters": any(hasattr(layer, "adapter") for layer in self.decoders),
            "patterns of heads": any(layer.src_attn.patterns for layer in self.decoders),
        }
        if (part := next((name for name, is_used in used.items() if is_used), None)) is not None:
            raise ConfigError(f"partially autoregressive decoding does not apply {part}; set partial_ar to false")
        return super().forward_partially_AR(*args, **options)
