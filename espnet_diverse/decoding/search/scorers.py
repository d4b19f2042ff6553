"""Scorers of hypotheses besides CTC: an attention decoder and a language model."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.lm.transformer_lm import TransformerLM
from torch import Tensor, nn

from espnet_diverse.attention import KVCache, MultiHeadAttention, Stream
from espnet_diverse.decoding.search.prefix_tree import PrefixScorer
from espnet_diverse.decoding.search.shortlist import Allowed
from espnet_diverse.decoding.search.timestamps import TimestampRules
from espnet_diverse.errors import NoBatchedSearchError
from espnet_diverse.nets.whisper.decoder import LearnedPositions
from espnet_diverse.upstream.layers import DecoderLayer, EncoderLayer, PositionalEncoding


class DecoderScorer(PrefixScorer):
    """Scores of an attention decoder.

    Args:
        decoder: ESPnet's transformer decoder, or ours.
        shortlisted: Whether batches have shortlists.

    Attributes:
        allowed: Tokens that the sentences of the batch may have; None is all.
        state_rows: Number of rows before the frames of the encoder's output.
        most_tokens: Greatest number of tokens of a text; None is no bound.
        timed: Whether texts have times, for the batches that begin later; only of a decoder that has `times`.
        no_speech: Probability that there is no speech (B,), of the utterances that the batch began with; None where the
            decoder does not know.

    Raises:
        NoBatchedSearchError: The decoder is of another class.
    """

    def __init__(self, decoder: nn.Module, shortlisted: bool = False):
        if not isinstance(decoder, TransformerDecoder) or not isinstance(decoder.embed[0], nn.Embedding):
            raise NoBatchedSearchError(f"{type(decoder).__name__} has no batched search; use search=espnet")
        super().__init__(decoder.decoders)
        self.decoder, self.state_rows = decoder, getattr(decoder, "state_rows", 0)
        self.most_tokens: int | None = getattr(decoder, "most_tokens", None)
        self.no_speech: Tensor | None = None
        self.timed = False
        self.rules: TimestampRules | None = None
        self.allowed: Allowed | None = None
        self._every_output = decoder.output_layer if shortlisted else None  # before its precision is set
        self._some_outputs: tuple[Tensor, Tensor | None] | None = None

    def allow(self, allowed: Allowed | None) -> None:
        """Set the tokens that the sentences of the next batch may have.

        Their part of the output layer is in float32: in another precision it would take longer to make than it saves.
        An output layer with an adapter for each condition has no part of its own, and is computed as a whole.
        """
        self.allowed, self._some_outputs, every = allowed, None, self._every_output
        if allowed is not None and isinstance(every, nn.Linear) and len(allowed.rows) < every.out_features:
            bias = None if every.bias is None else every.bias[allowed.rows]
            self._some_outputs = every.weight[allowed.rows], bias

    def begin(self, source: Tensor, mask: Tensor | None) -> None:
        """Start a new batch with encoder output `source` (B, T, M); `mask` (B, 1, T) is False at padding."""
        super().begin()
        if hasattr(self.decoder, "shorten_masked"):  # ours; ESPnet's has no memory
            source, mask = self.decoder.shorten_masked(source, mask)
        self.mask, self.length = mask, source.size(1)
        self.source = []
        for attention in self.chosen:
            self.source.append(_keys(attention.source, source, self.mask))
            source = attention.source.next_source(source, self.source[-1], self.mask)
        self.prompt = self.decoder.prompt(len(source)) if hasattr(self.decoder, "prompt") else None
        if self.timed:
            self.prompt = self.prompt[:, :-1]
        self.rules = None

    def keep(self, rows: Tensor) -> None:
        """See `PrefixScorer.keep`."""
        super().keep(rows)
        self.mask = None if self.mask is None else self.mask[rows]
        self.allowed = None if self.allowed is None else self.allowed.keep(rows)
        self.source = [cache.keep(rows) for cache in self.source]
        if self.rules is not None:
            self.rules.keep(rows)

    def extend(self, parents: Tensor) -> None:
        """See `PrefixScorer.extend`."""
        super().extend(parents)
        if self.rules is not None:
            self.rules.extend(parents)

    def _advance(self, tokens: Tensor) -> Tensor:
        """See `PrefixScorer`; a prompt takes the place of <sos/eos>, and its tokens are read side by side."""
        if self.prompt is None or self.step:
            if self.rules is not None:
                self.rules.read(tokens)
            return super()._advance(tokens)
        if self.timed:
            self.rules = TimestampRules(self.decoder.times, tokens)
        count, width = self.prompt.size(1), tokens.size(1)
        before = torch.ones(count, count, dtype=torch.bool, device=tokens.device).tril()
        self.behind = before.expand(len(tokens), -1, -1)
        x = self._through_layers(self.decoder.embed(self.prompt))
        self.no_speech = self.decoder.no_speech(self.decoder.after_norm(x[:, 0]))
        self.behind, self.step = self.behind[:, -1:].expand(-1, width, -1), count
        return x[:, -1:].expand(-1, width, -1)

    def _embed(self, tokens: Tensor) -> Tensor:
        embedding, position = self.decoder.embed
        if self.step == 0:  # where our start tag replaces <sos/eos>
            return _positioned(embedding(tokens), position, 0)
        return _positioned(nn.Embedding.forward(embedding, tokens), position, self.step)

    def _layer(self, layer: DecoderLayer, index: int, x: Tensor) -> Tensor:
        def look(x: Tensor) -> Tensor:
            attention, source = self.chosen[index].source, self.source[index]
            mask = self.mask if source.sums is None else None
            stream = Stream(mask, query_position=None if x.size(1) > 1 and self.step == 0 else self.step)
            return attention.attend_cached(attention.project_query(x), x, source, stream, self.length)

        before = layer.normalize_before
        joins = (layer.concat_linear1, layer.concat_linear2) if layer.concat_after else (None, None)
        x = _residual(x, layer.norm1, self._self_attention(index), before, joins[0])
        x = _residual(x, layer.norm2, look, before, joins[1])
        x = _residual(x, layer.norm3, layer.feed_forward, before)
        return layer.adapter(x) if hasattr(layer, "adapter") else x

    def _output(self, x: Tensor) -> Tensor:
        x = self.decoder.after_norm(x) if self.decoder.normalize_before else x
        selected = self._some_outputs
        scores = self.decoder.output_layer(x) if selected is None else F.linear(x, *selected)
        if self.allowed is not None:
            return self.allowed.of_rows(scores[..., self.allowed.rows] if selected is None else scores)
        if self.prompt is not None:
            scores = self.decoder.allowed(scores, self.step, self.timed)
        return scores if self.rules is None else self.rules.apply(scores)


class LanguageModelScorer(PrefixScorer):
    """Scores of a language model.

    Args:
        model: ESPnet's transformer language model, or ours.

    Raises:
        NoBatchedSearchError: The language model is of another class.
    """

    def __init__(self, model: nn.Module):
        if not isinstance(model, TransformerLM):
            raise NoBatchedSearchError(f"{type(model).__name__} has no batched search; use search=espnet")
        super().__init__(model.encoder.encoders)
        self.model = model

    def begin(self, source: Tensor, mask: Tensor | None) -> None:
        """Start a new batch with the utterances of `source` (B, T, M), whose content is not used."""
        super().begin()

    def _visible(self, mask: Tensor, tokens: Tensor) -> Tensor:
        return mask & (tokens != 0).unsqueeze(1)  # in ESPnet's language models padding has the index of blank

    def _embed(self, tokens: Tensor) -> Tensor:
        *layers, position = self.model.encoder.embed
        x = self.model.embed(tokens)
        for layer in layers:
            x = layer(x)
        return _positioned(x, position, self.step)

    def _layer(self, layer: EncoderLayer, index: int, x: Tensor) -> Tensor:
        before, join = layer.normalize_before, layer.concat_linear if layer.concat_after else None
        x = _residual(x, layer.norm1, self._self_attention(index), before, join)
        return _residual(x, layer.norm2, layer.feed_forward, before)

    def _output(self, x: Tensor) -> Tensor:
        encoder = self.model.encoder
        return self.model.decoder(encoder.after_norm(x) if encoder.normalize_before else x)


def _keys(attention: MultiHeadAttention, source: Tensor, mask: Tensor | None) -> KVCache:
    """Return the keys and values of `source` (B, T, M), or sums over all that `mask` (B, 1, T) allows."""
    cache = attention.cache_kv(source)
    sums = attention.accumulate(cache, mask)
    return cache if sums is None else cache.of_keys(lambda x: x[:, :, :0].clone())._replace(sums=sums)


def _residual(
    x: Tensor, norm: nn.Module, inner: Callable[[Tensor], Tensor], before: bool, join: nn.Module | None = None
) -> Tensor:
    """Residual connection of ESPnet's layers around `inner`."""
    normed = norm(x) if before else x
    y = inner(normed)
    x = x + (y if join is None else join(torch.cat([normed, y], -1)))
    return x if before else norm(x)


def _positioned(x: Tensor, position: nn.Module, step: int) -> Tensor:
    """Add the vector of position `step` to x (B, W, M); without position encoding x is unchanged."""
    if isinstance(position, LearnedPositions):
        return position.at(x, step)
    if not isinstance(position, PositionalEncoding):
        return x
    position.extend_pe(x.new_empty(1, step + 1))
    return x * position.xscale + position.pe[:, step]
