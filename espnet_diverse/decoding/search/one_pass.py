"""Non-autoregressive translation of a batch of sentences in one pass (Ma et al. 2019, "FlowSeq", section 4).

The `beam_size` most probable lengths are translated side by side, as the length beam of Ghazvininejad et al. 2019,
"Mask-predict", section 3.2. Each length gives one hypothesis: the most probable token at each position, at the centre
of the prior. Hypotheses are ranked by the model's bound of log p(y | x), see `contrib/flowseq/decoder.py`, taken at the
mean of the posterior; `penalty` and `length_penalty` change it as in beam search. A single length has nothing to be
ranked with, so its score is log p(T | x) + sum_t log p(y_t | z, x) at the centre of the prior, which costs no further
pass.
"""

import torch
from torch import Tensor

from espnet_diverse.contrib.flowseq import FlowDecoder
from espnet_diverse.contrib.flowseq.transformer import Source
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam import Hypothesis
from espnet_diverse.decoding.search.beam_search import of_rows, token_bounds
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.scope import current, scope

_BLANK = 0


class OnePassSearch:
    """Search with a decoder of FlowSeq; called like `BeamSearch`.

    Args:
        decoder: The decoder.
        eos: Index of <sos/eos>.
    """

    def __init__(self, decoder: FlowDecoder, eos: int):
        self.decoder, self.eos = decoder, eos

    @torch.inference_mode()
    def __call__(self, source: Tensor, lengths: Tensor, options: SearchOptions) -> list[list[Hypothesis]]:
        """The n-best translations of each sentence, best first.

        Args:
            source: Encoder output (B, S, M).
            lengths: Number of frames of each sentence (B,).
            options: Search options. Of the lengths within `minlenratio` and `maxlenratio`, `beam_size` are translated.

        The open scope holds the condition ids of the sentences, (B,) or (1,).
        """
        bounds = token_bounds(options, lengths, of_text=True)
        counts, length_scores = self.decoder.length.best(Source.of(source, lengths), options.beam_size, *bounds)
        number = counts.size(1)
        rows = torch.arange(len(source), device=source.device).repeat_interleave(number)
        encoded, counts = (source[rows], lengths[rows]), counts.flatten()
        with scope(conditions=of_rows(current().conditions, rows), collect=False):
            scores = self._of_text(self.decoder.translate(*encoded, counts))
            tokens, ranked = scores.argmax(-1), length_scores.flatten()
            if number > 1:
                bound = self.decoder(*encoded, tokens, counts, noise=source.new_zeros(*tokens.shape, 1))
                scores, ranked = self._of_text(bound.scores), bound.length - bound.divergence
        valid = lengths_to_mask(counts, tokens.size(1))
        log_probs = scores.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) - scores.logsumexp(-1)
        total = ranked.double() + log_probs.double().masked_fill(~valid, 0.0).sum(1) + options.penalty * counts
        total = total / (counts + 1) ** options.length_penalty
        total = total.masked_fill(length_scores.flatten() == -torch.inf, -torch.inf)
        texts = [row[:count] for row, count in zip(tokens.tolist(), counts.tolist(), strict=True)]
        hypotheses = [Hypothesis(*pair) for pair in zip(texts, total.tolist(), strict=True)]
        return [_best(hypotheses[row : row + number], options.nbest) for row in range(0, len(hypotheses), number)]

    def _of_text(self, scores: Tensor) -> Tensor:
        """Exclude <blank> and <sos/eos>, which no text has, from scores (N, T, V)."""
        for index in (_BLANK, self.eos):
            scores[..., index] = -torch.inf
        return scores


def _best(hypotheses: list[Hypothesis], number: int) -> list[Hypothesis]:
    possible = (hypothesis for hypothesis in hypotheses if hypothesis.score > -torch.inf)
    return sorted(possible, key=lambda hypothesis: -hypothesis.score)[:number]
