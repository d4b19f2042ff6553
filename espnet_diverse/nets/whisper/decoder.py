"""Whisper's decoder: ESPnet's transformer decoder with learned positions and a prompt, and a choice of attention.

Texts begin with <sos/eos> as everywhere in ESPnet; the decoder replaces it by the prompt of the sample (`prompt.py`).
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.decoder import DiverseTransformerDecoder
from espnet_diverse.nets.replace_attention import signature_with
from espnet_diverse.nets.whisper.encoder import as_whisper, check_absolute
from espnet_diverse.nets.whisper.prompt import Prompt, PromptOptions
from espnet_diverse.option_checks import must_be, read
from espnet_diverse.upstream.layers import subsequent_mask

_RATES: dict = dict.fromkeys(
    ("dropout_rate", "positional_dropout_rate", "self_attention_dropout_rate", "src_attention_dropout_rate"), 0.0
)
_OURS = _RATES | {
    "attention_heads": 8,
    "prompt": None,
    "max_positions": 448,
    "suppress": (),
    "suppress_first": (),
    "alignment_heads": None,
}
"""Options of this decoder, and those with other defaults than ESPnet's, for `--print_config`."""


class LearnedPositions(nn.Module):
    """Adds a learned vector for each position.

    Args:
        positions: Greatest number of positions.
        width: Width M.
    """

    def __init__(self, positions: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(positions, width) * 0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Compute x (B, T, M) -> (B, T, M), the first position first."""
        self._check(x.size(1))
        return x + self.weight[: x.size(1)]

    def at(self, x: Tensor, position: int) -> Tensor:
        """Compute x (B, W, M), all at one position -> (B, W, M)."""
        self._check(position + 1)
        return x + self.weight[position]

    def _check(self, length: int) -> None:
        if length > len(self.weight):
            raise DataError(f"{length} tokens are more than the {len(self.weight)} that Whisper reads; split the text")


class DiverseWhisperDecoder(DiverseTransformerDecoder):
    """Whisper's decoder; `decoder: diverse_whisper` in configurations.

    Args:
        vocab_size: Number of tokens V.
        encoder_output_size: Width M.
        prompt: `PromptOptions` by name.
        attention_heads, linear_units, num_blocks: Sizes of the layers.
        max_positions: Greatest number of tokens, with the prompt.
        suppress: Tokens that a search never emits, such as signs for sounds; tokens for times are emitted only where
            texts have times.
        suppress_first: Further tokens that do not begin a text.
        alignment_heads: Layer and head, from 0, of each head of the cross-attention that looks at the frames of the
            token to predict; None: all heads of the second half of the layers, as in openai-whisper.
        options: Options of `DiverseTransformerDecoder`, such as `attention` and dropout rates, which are 0 by default.

    Attributes:
        most_tokens: Greatest number of tokens of a text.
        times: Indices of the tokens for times, in steps of 20 ms.

    Raises:
        ConfigError: An option has a value that is not allowed, or the self-attention adds position itself.
    """

    __signature__ = signature_with(DiverseTransformerDecoder, **_OURS)
    suppressed: Tensor

    def __init__(
        self,
        vocab_size: int,
        encoder_output_size: int,
        prompt: Mapping,
        attention_heads: int = 8,
        linear_units: int = 2048,
        num_blocks: int = 6,
        max_positions: int = 448,
        suppress: Sequence[int] = (),
        suppress_first: Sequence[int] = (),
        alignment_heads: Sequence[Sequence[int]] | None = None,
        **options,
    ):
        check_absolute(options.get("attention"), type(self).__name__)
        if options.get("memory") is not None:
            raise ConfigError("memory does not fit Whisper's decoder, whose texts begin with a prompt; leave it out")
        sizes: dict = {"attention_heads": attention_heads, "linear_units": linear_units, "num_blocks": num_blocks}
        super().__init__(vocab_size, encoder_output_size, **sizes, **_RATES | options)
        self.prompt = Prompt(read(PromptOptions, prompt, "prompt"))
        self.embed[1] = LearnedPositions(max_positions, encoder_output_size)
        self.output_layer.weight = self.embed[0].weight
        as_whisper(self)
        self.times = range(self.prompt.options.no_timestamps + 1, vocab_size - 1)
        suppressed = torch.zeros(2, 2, vocab_size, dtype=torch.bool)  # by whether texts have times, then by place
        suppressed[:, :, list(suppress)] = suppressed[:, 0, list(suppress_first)] = True
        suppressed[0, :, self.times.start : self.times.stop] = True
        suppressed[1, :, self.times.start : self.times.stop] = False
        self.register_buffer("suppressed", suppressed, persistent=False)
        self.most_tokens = max_positions - len(self.prompt)
        self.alignment_heads = heads_that_align(alignment_heads, num_blocks, attention_heads)

    def forward(self, hs_pad: Tensor, hlens: Tensor, ys_in_pad: Tensor, ys_in_lens: Tensor, *args, **options):
        """hs_pad (B, Tk, M), ys_in_pad (B, Tq), <sos/eos> first -> scores (B, Tq, V), lengths (B,)."""
        added = len(self.prompt) - 1
        prompted = self._prompted(ys_in_pad)
        scores, _ = super().forward(hs_pad, hlens, prompted, ys_in_lens + added, *args, **options)
        if isinstance(scores, tuple):  # with hidden states
            return (scores[0][:, added:].contiguous(), scores[1]), ys_in_lens
        return scores[:, added:].contiguous(), ys_in_lens  # ESPnet's losses take a view

    def forward_one_step(
        self, tgt: Tensor, tgt_mask: Tensor, memory: Tensor, memory_mask: Tensor | None = None, **options
    ):
        """Compute ESPnet's cached step: tgt (B, T), <sos/eos> first, memory (B, Tk, M) -> scores (B, V), cache."""
        prompted = self._prompted(tgt)
        mask = subsequent_mask(prompted.size(1), device=prompted.device).unsqueeze(0)
        scores, cache = super().forward_one_step(prompted, mask, memory, memory_mask, **options)
        if isinstance(scores, tuple):  # with hidden states
            return (self.allowed(scores[0], prompted.size(1)).log_softmax(-1), scores[1]), cache
        return self.allowed(scores, prompted.size(1)).log_softmax(-1), cache

    def allowed(self, scores: Tensor, read: int, timed: bool = False) -> Tensor:
        """Scores (..., V) of the next token, which are minus infinity for suppressed tokens.

        After as many tokens as the decoder reads, only the end of the text is allowed.

        Args:
            scores: Scores, normalised or not.
            read: Number of tokens before the next one, with the prompt.
            timed: Whether texts have times, after a prompt of one token less; `TimestampRules` has their rules.
        """
        if read == len(self.embed[1].weight):
            return torch.cat([torch.full_like(scores[..., :-1], -torch.inf), scores[..., -1:]], dim=-1)
        later = int(read > len(self.prompt) - timed)
        return scores.masked_fill(self.suppressed[int(timed), later], -torch.inf)

    def no_speech(self, x: Tensor) -> Tensor | None:
        """Probabilities that there is no speech (B,), or None in a model without a token for it.

        Args:
            x: Input of the output layer at the beginning of the prompt (B, M).
        """
        token = self.prompt.options.no_speech
        return None if token is None else self.output_layer(x).softmax(-1)[:, token]

    def languages(self, source: Tensor) -> dict[str, float]:
        """Probabilities of the spoken language by the first token after the beginning, highest first.

        Args:
            source: Encoder output of one utterance (T, M).
        """
        start = source.new_tensor([[self.prompt.options.start]]).long()
        mask = start.new_ones(1, 1, 1, dtype=torch.bool)
        scores, _ = super().forward_one_step(start, mask, source.unsqueeze(0))
        names = self.prompt.names["lang"]
        chosen = scores[0, [self.prompt.options.languages[name] for name in names]].softmax(0).tolist()
        return dict(sorted(zip(names, chosen, strict=True), key=lambda one: -one[1]))

    def alignment_weights(self) -> Tensor:
        """Weights (B, n, Tq, Tk) of the n alignment heads in the last pass of a scope with `keep_attention`.

        Row P - 1 of a prompt of P tokens belongs to the first token of the text.
        """
        return torch.stack([self.decoders[layer].src_attn.attn[:, head] for layer, head in self.alignment_heads], dim=1)

    def _prompted(self, tokens: Tensor) -> Tensor:
        """Tokens (B, T) with the prompt instead of the first, (B, P - 1 + T)."""
        return torch.cat([self.prompt(len(tokens)), tokens[:, 1:]], dim=1)


def heads_that_align(named: Any, layers: int, heads: int) -> list[tuple[int, int]]:
    """Layer and head of each head that aligns: the named ones, or for None those of the second half of the layers.

    Raises:
        ConfigError: A named head does not exist.
    """
    known = list(product(range(layers), range(heads)))
    if named is None:
        return known[layers // 2 * heads :]
    pairs = [tuple(pair) if isinstance(pair, list | tuple) else pair for pair in named] if named else []
    if not pairs or not all(pair in known for pair in pairs):
        raise must_be("alignment_heads", f"pairs of a layer below {layers} and a head below {heads}", named)
    return pairs
