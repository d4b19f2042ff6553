"""Joint CTC/attention beam search over a batch of utterances.

Watanabe et al. 2017, "Hybrid CTC/attention architecture for end-to-end speech recognition", section IV. A hypothesis is
ranked by

    (1 - ctc_weight) log p_attention + ctc_weight log p_ctc + lm_weight log p_lm + penalty * length

Each step extends every hypothesis by the tokens that rank best without CTC, 1.5 times as many as the beam holds, and by
<eos>; CTC ranks these too, and the best of all are the next beam. An utterance is done at its greatest length, when no
hypothesis is left, or when longer ones no longer improve (equation (50) there). These are the rules of ESPnet's
`BatchBeamSearch`, and hypotheses and scores are its own; but an utterance is also done as soon as its best hypotheses
are certain, which saves half the steps of a model that is not sure where to end.

Nothing loops over utterances, hypotheses or frames. Utterances that are done leave the batch.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from espnet_diverse.decoding.beam import Beam, Choice, Hypothesis
from espnet_diverse.decoding.ctc_prefix import CTCPrefixScorer
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.scorers import DecoderScorer, LanguageModelScorer
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.scope import current, scope

_PRE_BEAM = 1.5


class BeamSearch:
    """The search with the parts of one model.

    Args:
        decoder: Attention decoder.
        ctc: ESPnet's CTC module, or None where `options.ctc_weight` is 0.
        eos: Index of <sos/eos>.
        options: Of the search; `ctc_weight` is a number.
        language_model: ESPnet's transformer language model over the same tokens, or ours.
        lm_weight: Weight of its score, at least 0.
        of_text: Whether a text is translated, see `Options.greatest`.

    Raises:
        ModelError: The decoder or the language model is none that can be searched in batches.
        ValueError: The weight is negative, so that hypotheses could gain by growing.
    """

    def __init__(
        self,
        decoder: nn.Module,
        ctc: nn.Module | None,
        eos: int,
        options: Options,
        language_model: nn.Module | None = None,
        lm_weight: float = 0.0,
        of_text: bool = False,
    ):
        if lm_weight < 0:
            raise ValueError(f"lm_weight {lm_weight} is negative; give 0 or more")
        self.of_text = of_text
        self.eos, self.options, self.ctc = eos, options, ctc if options.ctc_weight else None
        self.scorers: list[tuple[float, DecoderScorer | LanguageModelScorer]] = []
        if options.ctc_weight < 1:
            self.scorers.append((1 - options.ctc_weight, DecoderScorer(decoder)))
        if language_model is not None and lm_weight:
            self.scorers.append((lm_weight, LanguageModelScorer(language_model)))
        self.vocabulary = (ctc.ctc_lo if options.ctc_weight == 1 else decoder.output_layer).out_features

    @torch.inference_mode()
    def __call__(self, source: Tensor, lengths: Tensor) -> list[list[Hypothesis]]:
        """The best hypotheses of each utterance, best first; none where all ended before their least length.

        Args:
            source: Encoder output (B, T, M).
            lengths: Frames of each utterance (B,), T for at least one.

        The open scope has the task ids of the utterances, (B,) or (1,).
        """
        ratio = self.options.minlenratio
        found = self._search(source, lengths, ratio)
        while ratio >= 0.1 and not all(found):  # ESPnet tries again with shorter hypotheses
            ratio -= 0.1
            rows = torch.tensor([row for row, best in enumerate(found) if not best], device=lengths.device)
            with scope(conditions=of_rows(current().conditions, rows), collect=False):
                again = self._search(source[rows], lengths[rows], ratio)
            for row, best in zip(rows.tolist(), again, strict=True):
                found[row] = best
        return found

    def _search(self, source: Tensor, lengths: Tensor, minlenratio: float) -> list[list[Hypothesis]]:
        beam = Beam(*token_bounds(self.options, lengths, self.of_text, minlenratio), self.eos, self.options)
        ctc = self._begin(source, lengths)
        conditions = current().conditions
        while True:
            with scope(conditions=of_rows(conditions, beam.rows), collect=False):
                choice = self._choose(beam, ctc)
            kept, choice = beam.advance(choice)
            if not len(beam.rows):
                return beam.found
            for _, scorer in self.scorers:
                if kept is not None:
                    scorer.keep(kept)
                scorer.extend(choice.parents)
            if ctc:
                if kept is not None:
                    ctc.keep(kept)
                ctc.extend(choice.parents, choice.tokens, choice.ctc)

    def _begin(self, source: Tensor, lengths: Tensor) -> CTCPrefixScorer | None:
        mask = source_mask(source, lengths)
        for _, scorer in self.scorers:
            scorer.begin(source, mask)
        return CTCPrefixScorer(self.ctc.log_softmax(source), lengths, self.eos) if self.ctc else None

    def _choose(self, beam: Beam, ctc: CTCPrefixScorer | None) -> Choice:
        """The best hypotheses that are one token longer."""
        shape = *beam.tokens.shape, self.vocabulary
        rank = beam.scores.new_full(shape, self.options.penalty, dtype=torch.float32)
        for weight, scorer in self.scorers:
            rank.add_(scorer.score(beam.tokens), alpha=weight)
        candidates = self._candidates(rank) if ctc else None
        if candidates is not None:
            rank = rank.gather(-1, candidates)
        total = rank + beam.scores.unsqueeze(-1)
        if not ctc:
            return self._best(total, None, None)
        ctc_scores = ctc.score(candidates)
        return self._best(total.add(ctc_scores, alpha=self.options.ctc_weight), candidates, ctc_scores)

    def _candidates(self, rank: Tensor) -> Tensor | None:
        """Tokens that CTC is to rank (B, W, K); None where it ranks all: few, or nothing else does."""
        size = int(_PRE_BEAM * self.options.beam_size)
        if self.options.ctc_weight == 1 or size >= self.vocabulary:
            return None
        best = rank.topk(size).indices
        eos = best.new_full((*best.shape[:2], 1), self.eos)
        return torch.cat([best.masked_fill(best == self.eos, 0), eos], -1)  # <eos> once; blank is impossible

    def _best(self, total: Tensor, candidates: Tensor | None, ctc_scores: Tensor | None) -> Choice:
        """The best of all extensions, scores (B, W, K) -> (B, beam size)."""
        flat = total.flatten(1)
        scores, index = flat.topk(min(self.options.beam_size, flat.size(1)))
        parents = index // total.size(-1)
        tokens = index % total.size(-1) if candidates is None else candidates.flatten(1).gather(1, index)
        ctc = scores if ctc_scores is None else ctc_scores.flatten(1).gather(1, index)
        return Choice(scores, parents, tokens, ctc)


def token_bounds(
    options: Options, lengths: Tensor, of_text: bool, minlenratio: float | None = None
) -> tuple[Tensor, Tensor]:
    """Tokens that a hypothesis has at least and at most, (B,) each, for utterances of `lengths` frames (B,);
    `minlenratio` in place of that of the options."""
    frames = lengths.tolist()
    least = lengths.new_tensor([options.least(count, minlenratio) for count in frames])
    return least, lengths.new_tensor([options.greatest(count, of_text) for count in frames])


def source_mask(source: Tensor, lengths: Tensor) -> Tensor | None:
    """True at frames of `source` (B, T, M) that are no padding, (B, 1, T); None where there is none."""
    alike = bool((lengths == source.size(1)).all())
    return None if alike else lengths_to_mask(lengths, source.size(1)).unsqueeze(1)


def of_rows(conditions: Mapping[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    """Task ids by condition of some rows of a batch; ids that hold for all stay one."""
    return {condition: ids if len(ids) == 1 else ids[rows] for condition, ids in conditions.items()}
