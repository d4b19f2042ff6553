"""Sampling from an attention decoder, for back-translation.

Edunov et al. 2018, "Understanding back-translation at scale": samples from a model's distribution are better training
data than its most probable translations. Each token is drawn with

    p(token) ~ p_attention(token | prefix) ^ (1 / temperature)

from the `top_k` most probable tokens (Fan et al. 2018), or from all. <blank> and <unk> are never drawn. The score of a
draw is its log probability under the decoder, at temperature 1 and over all tokens.

The random numbers of an utterance depend on the seed and on the utterance alone, not on its batch, its process or the
order of utterances. In the same batches on the same machine, the draws are identical. In other batches, or on another
CPU, log probabilities and scores differ by rounding (about 1e-6 in float32). A token then differs only if its random
number falls within this rounding of the boundary between two tokens, or if two tokens whose probabilities are that
close compete for the last of the `top_k` places. Nothing loops over utterances or draws, and keys are cached as in beam
search.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam import Hypothesis, before_end
from espnet_diverse.decoding.search.beam_search import of_rows, source_mask, token_bounds
from espnet_diverse.decoding.search.scorers import DecoderScorer
from espnet_diverse.scope import current, scope

_NO_TEXT = 2  # <blank> and <unk>


class SamplingSearch:
    """Draws `options.nbest` texts for each utterance.

    Args:
        decoder: Attention decoder.
        eos: Index of <sos/eos>.
        of_text: Whether the source is text, see `SearchOptions.greatest`.
        sos: Index of <sos> of a model in which it differs from <eos>.

    Raises:
        ModelError: The decoder is of a class that batched search does not support.
    """

    def __init__(self, decoder: nn.Module, eos: int, of_text: bool = False, sos: int | None = None):
        self.scorer, self.eos, self.of_text = DecoderScorer(decoder), eos, of_text
        self.sos = eos if sos is None else sos
        self.scorers = [self.scorer]

    @torch.inference_mode()
    def __call__(
        self,
        source: Tensor,
        lengths: Tensor,
        options: SearchOptions,
        utterances: Sequence[NDArray],
        timed: bool = False,
    ) -> list[list[Hypothesis]]:
        """Draw texts for each utterance, most probable first.

        Args:
            source: Encoder output (B, T, M).
            lengths: Number of frames of each utterance (B,), T for at least one.
            options: Search options.
            utterances: Features or token indices of each utterance; an utterance's draws depend on them and on
                `options.seed` alone.
            timed: Whether texts have times; only with a decoder that has `times`.

        The open scope holds the condition ids of the utterances, (B,) or (1,).
        """
        conditions = current().conditions
        least, greatest = token_bounds(options, lengths - self.scorer.state_rows, self.of_text, self.scorer.most_tokens)
        self.scorer.timed = timed
        self.scorer.begin(source, source_mask(source, lengths))
        numbers = _uniform_numbers(utterances, max(greatest.tolist()), options).to(source.device)
        drawn = lengths.new_full(numbers.shape, self.eos)  # (B, steps, W)
        scores = numbers.new_zeros(len(lengths), options.nbest)
        rows, done = torch.arange(len(lengths), device=source.device), torch.zeros_like(scores, dtype=torch.bool)
        tokens = lengths.new_full(scores.shape, self.sos)
        for step in range(numbers.size(1)):
            with scope(conditions=of_rows(conditions, rows), collect=False):
                log_probs = self.scorer.score(tokens).double()
            tokens = self._draw(log_probs, (step >= least)[rows], numbers[rows, step], options)
            gained = log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
            scores[rows] += gained.masked_fill(done, 0.0)
            tokens.masked_fill_(done, self.eos)
            drawn[rows, step] = tokens
            done = done | (tokens == self.eos) | (step == greatest[rows] - 1).unsqueeze(1)
            active = (~done).any(1).nonzero().squeeze(1)
            if not len(active):
                break
            if len(active) < len(rows):
                self.scorer.keep(active)
                rows, done, tokens = rows[active], done[active], tokens[active]
            self.scorer.extend(torch.arange(tokens.size(1), device=tokens.device).expand_as(tokens))
        pairs = zip(drawn.transpose(1, 2).tolist(), scores.tolist(), strict=True)
        return [self._sorted(texts, text_scores) for texts, text_scores in pairs]

    def _draw(self, log_probs: Tensor, may_end: Tensor, numbers: Tensor, options: SearchOptions) -> Tensor:
        """Tokens (B, W) at the quantiles `numbers` (B, W) of log probabilities (B, W, V), which are not changed."""
        logits = log_probs / options.temperature
        logits[..., :_NO_TEXT] = -torch.inf
        logits[..., self.eos].masked_fill_(~may_end.unsqueeze(1), -torch.inf)
        if 0 < options.top_k < logits.size(-1):
            worst = logits.topk(options.top_k).values[..., -1:]
            logits.masked_fill_(logits < worst, -torch.inf)
        sums = logits.softmax(-1).cumsum(-1)
        tokens = torch.searchsorted(sums, numbers.unsqueeze(-1) * sums[..., -1:], right=True).squeeze(-1)
        return tokens.clamp_(max=logits.size(-1) - 1)

    def _sorted(self, texts: Sequence[list[int]], scores: Sequence[float]) -> list[Hypothesis]:
        hypotheses = (Hypothesis(before_end(text, self.eos), score) for text, score in zip(texts, scores, strict=True))
        return sorted(hypotheses, key=lambda one: -one.score)


def _uniform_numbers(utterances: Sequence[NDArray], steps: int, options: SearchOptions) -> Tensor:
    """Uniform random numbers of all draws, (B, steps, W); each row depends on its utterance and the seed alone."""
    seeds = [int.from_bytes(hashlib.sha256(np.ascontiguousarray(x)).digest()[:8], "big") for x in utterances]
    generators = [np.random.default_rng([options.seed, seed]) for seed in seeds]
    return torch.from_numpy(np.stack([generator.random((steps, options.nbest)) for generator in generators]))
