"""Joint CTC/attention beam search over a batch of utterances.

Watanabe et al. 2017, "Hybrid CTC/attention architecture for end-to-end speech recognition", section IV. A hypothesis is
ranked by

    (1 - ctc_weight) log p_attention + ctc_weight log p_ctc + lm_weight log p_lm + penalty * length

and a bonus for hotwords, where there are any (`hotwords.py`).

Each step extends every hypothesis by its 1.5 * beam_size best tokens without CTC, and by <eos>; CTC scores these
candidates, and the best of all extensions form the next beam. An utterance ends at its maximum length, when no
hypothesis is left, or when longer hypotheses no longer improve (equation (50) of the paper). These are the rules of
ESPnet's `BatchBeamSearch`, with the same hypotheses and scores. In addition an utterance ends as soon as its n-best
hypotheses are certain, which saves half of the steps of a model that is not sure where to end.

With hotwords the candidates of a search without them are kept, and half as many more are chosen with the bonus. While
the beam is chosen, an unfinished phrase counts with half of its bonus. Otherwise beginnings of phrases, whose bonus may
be removed later, would push correct hypotheses out of a narrow beam. The scores of hypotheses contain the whole bonus.

No step loops over utterances, hypotheses or frames. Completed utterances leave the batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam import Beam, Choice, Hypothesis
from espnet_diverse.decoding.search.ctc_prefix import CTCPrefixScorer, SpelledPrefixScorer
from espnet_diverse.decoding.search.greedy import heard_tokens
from espnet_diverse.decoding.search.hotwords import HotwordScorer, repeating, without_repeats
from espnet_diverse.decoding.search.ngram import NgramScorer
from espnet_diverse.decoding.search.prefix_tree import PrefixScorer
from espnet_diverse.decoding.search.scorers import DecoderScorer, LanguageModelScorer
from espnet_diverse.decoding.search.shortlist import Allowed, Shortlist
from espnet_diverse.decoding.search.unspoken import heard, without_loops
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.copies import copied
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.whisper.byte_ctc import ByteCTC
from espnet_diverse.scope import current, scope

_PRE_BEAM = 1.5
_DOUBT = 0.5
"""Share of the gain of an unfinished phrase that does not count while the beam is chosen."""
_BLOCK = 64
"""Values of which `highest` computes a maximum together."""
_MORE_TOKENS = 2
"""Tokens that hotwords may add to a text of a decoder without CTC, which may repeat whole sentences to gain more."""
_TIMES_TOKENS, _FURTHER_TOKENS = 2, 10
"""Limit of a first search with hotwords in relation to the text without: one that repeats them would be very long."""
_Weighted = tuple[float, PrefixScorer | NgramScorer | HotwordScorer]


class BeamSearch:
    """Beam search with the modules of one model. Options are arguments of a call, so calls do not affect each other.

    Args:
        decoder: Attention decoder; None searches by CTC alone, with `ctc_weight` 1.
        ctc: ESPnet's CTC module, or None where `ctc_weight` is always 0.
        eos: Index of <sos/eos>.
        language_model: ESPnet's transformer language model over the same tokens, or ours, or an n-gram model.
        hotwords: Scorer of hotwords, or None.
        of_text: Whether the source is text, see `SearchOptions.greatest`.
        sos: Index of <sos> of a model in which it differs from <eos>.
        shortlist: Tokens that the translation of a text may have; None is all.

    Attributes:
        scorers: The scorer of the decoder, if there is one, then the scorer of a transformer language model, if any.

    Raises:
        ModelError: The decoder or the language model is of a class that batched search does not support.
    """

    def __init__(
        self,
        decoder: nn.Module | None,
        ctc: nn.Module | None,
        eos: int,
        language_model: nn.Module | NgramScorer | None = None,
        hotwords: HotwordScorer | None = None,
        of_text: bool = False,
        sos: int | None = None,
        shortlist: Shortlist | None = None,
    ):
        self.eos, self.sos, self.ctc, self.hotwords, self.of_text = eos, sos, ctc, hotwords, of_text
        self.shortlist = shortlist
        self._spelled = ctc.spelled if isinstance(ctc, ByteCTC) else None  # labels that tokens consist of
        self.decoder = None if decoder is None else DecoderScorer(decoder, shortlist is not None)
        self.language_model = language_model
        if isinstance(language_model, nn.Module):
            self.language_model = LanguageModelScorer(language_model)
        self.scorers = [scorer for scorer in (self.decoder, self.language_model) if isinstance(scorer, PrefixScorer)]
        self.vocabulary = (ctc.ctc_lo if decoder is None else decoder.output_layer).out_features

    @torch.inference_mode()
    def __call__(
        self,
        source: Tensor,
        lengths: Tensor,
        options: SearchOptions,
        hotwords: HotwordScorer | None = None,
        log_probs: Tensor | None = None,
        timed: bool = False,
        utterances: Sequence[NDArray[np.generic]] = (),
    ) -> list[list[Hypothesis]]:
        """Search for the best hypotheses of each utterance.

        Args:
            source: Encoder output (B, T, M).
            lengths: Number of frames of each utterance (B,), T for at least one.
            options: Search options; `ctc_weight` and, with a language model, `lm_weight` are numbers.
            hotwords: Scorer of hotwords for this call, instead of the search's own.
            log_probs: CTC log probabilities (B, T, V) of `source`; by default they are computed if CTC counts.
            timed: Whether texts have times; only with a decoder that has `times`, and no other scorer but hotwords.
            utterances: Token indices of each source text; only a shortlist reads them.

        The open scope holds the condition ids of the utterances, (B,) or (1,).

        Returns:
            Hypotheses of each utterance, best first; an empty list where all ended before the minimum length.

        Raises:
            ConfigError: `options.ctc_weight` needs a decoder or a CTC module that is missing.
        """
        self.check(options)
        hotwords = self.hotwords if hotwords is None else hotwords
        if self.decoder is not None:
            self.decoder.timed = timed
        if options.ctc_weight and log_probs is None:
            log_probs = self.ctc.log_softmax(source)
        allowed, phrases = None, () if hotwords is None else hotwords.tokens
        if self.shortlist is not None:
            allowed = self.shortlist(utterances, options, source.device, phrases)
        may_repeat = hotwords is not None and not options.ctc_weight and not options.minlenratio
        limited, plain = options, None
        if may_repeat and self._unlimited(options):
            plain = self._search(source, lengths, options, None, log_probs, allowed)
            limited = _limited(options, plain)
        results = self._search(source, lengths, limited, hotwords, log_probs, allowed)
        # Of this search, not of the next.
        no_speech = None if options.ctc_weight == 1 or self.decoder is None else self.decoder.no_speech
        weights = [0.0 if hotwords is None else options.hotword_weight] * len(results)

        def again(rows: list[int], options: SearchOptions, hotwords: HotwordScorer | None = hotwords) -> None:
            index = copied(rows, lengths.device)
            part = log_probs[index] if log_probs is not None else None
            tokens = None if allowed is None else allowed.keep(index)
            with scope(of_rows(current().conditions, index), host=of_rows(current().lists(), rows), collect=False):
                best = self._search(source[index], lengths[index], options, hotwords, part, tokens)
            for row, hypotheses in zip(rows, best, strict=True):
                results[row] = hypotheses
                weights[row] = 0.0 if hotwords is None else options.hotword_weight

        while options.minlenratio >= 0.1 and not all(results):  # ESPnet tries again with shorter hypotheses
            options = replace(options, minlenratio=options.minlenratio - 0.1)
            again([row for row, best in enumerate(results) if not best], options)
        if may_repeat:
            rows = repeating(results, hotwords, inf if plain is None else -limited.maxlenratio)
            if rows and plain is None:
                again(rows, options, None)
            for row in rows:
                best = results[row] if plain is None else plain[row]
                again([row], replace(options, maxlenratio=-(len(best[0].tokens) + _MORE_TOKENS if best else 1)))
        if hotwords is not None:
            by_ctc = options.ctc_weight and not self._spelled
            spoken = heard_tokens(log_probs, lengths) if by_ctc else self._bounds(lengths, options)[1] // 2
            without_repeats(results, spoken.tolist(), options, hotwords, again)
        if no_speech is not None:  # before repetitions are cut: a score is that of all tokens
            for row, (best, probability) in enumerate(zip(results, no_speech.tolist(), strict=True)):
                added = _added(best, options.penalty, weights[row], hotwords)
                results[row] = heard(best, probability, options.length_penalty, added)
        return self._without_loops(results, lengths) if self._unlimited(options) else results

    def _unlimited(self, options: SearchOptions) -> bool:
        """Return whether the positions of the decoder alone limit the length of a text."""
        return self.decoder is not None and self.decoder.most_tokens is not None and not options.maxlenratio

    def _without_loops(self, results: Sequence[list[Hypothesis]], lengths: Tensor) -> list[list[Hypothesis]]:
        frames = (lengths - self.decoder.state_rows).tolist()
        return [without_loops(best, count) for best, count in zip(results, frames, strict=True)]

    def check(self, options: SearchOptions) -> None:
        """Refuse options that need a part which this search does not have.

        Raises:
            ConfigError: `options.ctc_weight` needs a decoder or a CTC module that is missing; or see `Shortlist.check`.
        """
        weight = options.ctc_weight
        if weight and self.ctc is None:
            raise ConfigError(f"ctc_weight {weight} needs CTC, which this search does not have; set ctc_weight=0")
        if weight < 1 and self.decoder is None:
            raise ConfigError(f"ctc_weight {weight} needs a decoder, and this search has CTC alone; set ctc_weight=1")
        if weight == 1 and self._spelled:
            raise ConfigError(
                "ctc_weight 1 is not possible with CTC over bytes; set search=greedy, or a smaller weight"
            )
        if self.shortlist is not None:
            self.shortlist.check(options)

    def _weighted_scorers(self, options: SearchOptions, hotwords: HotwordScorer | None) -> Sequence[_Weighted]:
        """Scorers with non-zero weights."""
        weighted = [
            (1 - options.ctc_weight, self.decoder),
            (options.lm_weight, self.language_model),
            (options.hotword_weight, hotwords),
        ]
        return [(weight, scorer) for weight, scorer in weighted if weight and scorer is not None]

    def _search(
        self,
        source: Tensor,
        lengths: Tensor,
        options: SearchOptions,
        hotwords: HotwordScorer | None,
        log_probs: Tensor | None,
        allowed: Allowed | None,
    ) -> list[list[Hypothesis]]:
        bonus = 0.0 if hotwords is None else options.hotword_weight * hotwords.greatest
        beam = Beam(*self._bounds(lengths, options), self.eos, options, bonus, self.sos)
        scorers, mask = self._weighted_scorers(options, hotwords), source_mask(source, lengths)
        if self.decoder is not None:
            self.decoder.allow(allowed)
        for _, scorer in scorers:
            scorer.begin(source, mask)
        ctc = self._ctc_scorer(log_probs, lengths) if options.ctc_weight else None
        conditions, host = current().conditions, current().lists()
        while True:
            of_beam = of_rows(conditions, beam.rows)
            with scope(of_beam, host=of_rows(host, beam.numbers), collect=False):
                choice = self._choose(beam, scorers, ctc)
            rows, choice = beam.advance(choice)
            if not len(beam.rows):
                return beam.found
            for _, scorer in scorers:
                if rows is not None:
                    scorer.keep(rows)
                scorer.extend(choice.parents)
            if ctc:
                if rows is not None:
                    ctc.keep(rows)
                ctc.extend(choice.parents, choice.tokens, choice.ctc)

    def _ctc_scorer(self, log_probs: Tensor, lengths: Tensor) -> CTCPrefixScorer:
        if self._spelled:
            return SpelledPrefixScorer(log_probs, lengths, self.eos, self._spelled)
        return CTCPrefixScorer(log_probs, lengths, self.eos)

    def _bounds(self, lengths: Tensor, options: SearchOptions) -> tuple[Tensor, Tensor]:
        """Minimum and maximum number of tokens of a hypothesis, (B,) each; see `token_bounds`."""
        if self.decoder is None:
            return token_bounds(options, lengths, self.of_text)
        return token_bounds(options, lengths - self.decoder.state_rows, self.of_text, self.decoder.most_tokens)

    def _choose(self, beam: Beam, scorers: Sequence[_Weighted], ctc: CTCPrefixScorer | None) -> Choice:
        """The best hypotheses that are one token longer."""
        options, allowed = beam.options, None if self.decoder is None else self.decoder.allowed

        def zeros() -> Tensor:
            return beam.scores.new_zeros(*beam.tokens.shape, self.vocabulary, dtype=torch.float32)

        def of_sentences(x: Tensor) -> Tensor:
            return x if allowed is None else allowed.of_all(x)

        rank = gain = doubt = None
        for weight, scorer in scorers:
            if isinstance(scorer, HotwordScorer):
                gain, doubt = map(of_sentences, _bonus(scorer, weight, beam))
            elif scorer is self.decoder:
                rank = scorer.score(beam.tokens).float()
                rank = rank if weight == 1 else rank.mul_(weight)
            else:
                rank = zeros() if rank is None else rank
                rank.add_(of_sentences(scorer.score(beam.tokens)), alpha=weight)
        rank = zeros() if rank is None else rank
        candidates = None
        if ctc:
            candidates = self._candidates(rank, gain, options)
            rank[..., 0] = -torch.inf  # with CTC's finite score a blank would fill a beam that has room for all tokens
        if gain is not None:
            rank.add_(gain)
        if not ctc:  # no hypothesis has more extensions in the beam; the others need no score in float64
            candidates = highest(rank if doubt is None else rank - doubt, options.beam_size)
        total = _at(rank, candidates) + (beam.scores + options.penalty).unsqueeze(-1)
        ctc_scores = None
        if ctc:
            ctc_scores = ctc.score(candidates)
            total = total.add(ctc_scores, alpha=options.ctc_weight)
        trusted = total if doubt is None else total - _at(doubt, candidates)
        choice = _best(total, trusted, candidates, ctc_scores, options.beam_size)
        return choice if allowed is None else choice._replace(tokens=allowed.named(choice.tokens))

    def _candidates(self, rank: Tensor, gain: Tensor | None, options: SearchOptions) -> Tensor | None:
        """Tokens that CTC scores (B, W, K); None where it scores the whole vocabulary."""
        size = min(int(_PRE_BEAM * options.beam_size), self.vocabulary)
        if options.ctc_weight == 1 or (size == self.vocabulary and not self._spelled):
            return None
        best = highest(rank, size)
        if gain is not None:  # places for tokens of hotwords are added, so that other tokens lose none
            masked, room = (rank + gain).scatter_(-1, best, -torch.inf), min(-(-size // 2), self.vocabulary - size)
            best = torch.cat([best, highest(masked, room)], -1)
        eos = best.new_full((*best.shape[:2], 1), self.eos)
        return torch.cat([best.masked_fill(best == self.eos, 0), eos], -1)  # <eos> once; blank is impossible


def _limited(options: SearchOptions, plain: Sequence[Sequence[Hypothesis]]) -> SearchOptions:
    """The options of a search with hotwords, whose texts are at most some times as long as those without, `plain`."""
    longest = max((len(best[0].tokens) for best in plain if best), default=0)
    return replace(options, maxlenratio=-(_TIMES_TOKENS * longest + _FURTHER_TOKENS))


def _added(best: Sequence[Hypothesis], penalty: float, weight: float, hotwords: HotwordScorer | None) -> float:
    """Sum of what the penalty and hotwords of this weight added to the score of the first hypothesis."""
    tokens = best[0].tokens if best else []
    bonus = weight * hotwords.count(tokens)[1] if weight and hotwords is not None else 0.0
    return penalty * (len(tokens) + 1) + bonus


def _bonus(hotwords: HotwordScorer, weight: float, beam: Beam) -> tuple[Tensor, Tensor]:
    """Bonus of the next token, and the part of it that does not count while the beam is chosen, (B, W, V) each."""
    gain, unfinished = weight * hotwords.score(beam.tokens), weight * hotwords.unfinished()
    ends = beam.at_greatest()[:, None, None]
    return gain - unfinished * ends, _DOUBT * unfinished * ~ends


def highest(x: Tensor, count: int) -> Tensor:
    """Indices (..., K) of the `count` highest values of x (..., V), highest first; all V where there are fewer.

    On a CPU `topk` examines one value after another. The highest values are in the blocks with the highest maxima, and
    maxima are computed with vector instructions.
    """
    size, count = x.size(-1), min(count, x.size(-1))
    aligned = size - size % _BLOCK
    if x.is_cuda or aligned < 16 * count * _BLOCK:
        return x.topk(count).indices
    best = x[..., :aligned].unflatten(-1, (-1, _BLOCK)).amax(-1).topk(count).indices
    index = (best.unsqueeze(-1) * _BLOCK + torch.arange(_BLOCK)).flatten(-2)
    tail = torch.arange(aligned, size).expand(*index.shape[:-1], -1)
    index = torch.cat([index, tail], -1)
    return index.gather(-1, x.gather(-1, index).topk(count).indices)


def _at(x: Tensor, candidates: Tensor | None) -> Tensor:
    """Values (B, W, V) at the candidates (B, W, K); all of them where there are no candidates."""
    return x if candidates is None else x.gather(-1, candidates)


def _best(
    total: Tensor, trusted: Tensor, candidates: Tensor | None, ctc_scores: Tensor | None, beam_size: int
) -> Choice:
    """The best of all extensions by the scores `trusted` (B, W, K), with their scores `total`, -> (B, beam size)."""
    flat = total.flatten(1)
    scores, index = trusted.flatten(1).topk(min(beam_size, flat.size(1)))
    if trusted is not total:
        scores, order = flat.gather(1, index).sort(dim=1, descending=True)
        index = index.gather(1, order)
    parents = index // total.size(-1)
    tokens = index % total.size(-1) if candidates is None else candidates.flatten(1).gather(1, index)
    ctc = scores if ctc_scores is None else ctc_scores.flatten(1).gather(1, index)
    return Choice(scores, parents, tokens, ctc)


def token_bounds(
    options: SearchOptions, lengths: Tensor, of_text: bool, most: int | None = None
) -> tuple[Tensor, Tensor]:
    """Minimum and maximum number of tokens of a hypothesis, (B,) each.

    Args:
        options: Search options.
        lengths: Number of encoder frames of each utterance (B,).
        of_text: Whether the source is text, see `SearchOptions.greatest`.
        most: Greatest number of tokens that the decoder reads; None is no bound.
    """
    frames = lengths.tolist()
    least = copied([options.least(count) for count in frames], lengths.device)
    greatest = copied([options.greatest(count, of_text) for count in frames], lengths.device)
    return (least, greatest) if most is None else (least.clamp(max=most), greatest.clamp(max=most))


def source_mask(source: Tensor, lengths: Tensor) -> Tensor | None:
    """Mask of the frames of `source` (B, T, M) that are not padding, (B, 1, T); None where there is no padding."""
    alike = bool((lengths == source.size(1)).all())
    return None if alike else lengths_to_mask(lengths, source.size(1)).unsqueeze(1)


def of_rows(conditions: Mapping, rows: Tensor | Sequence[int]) -> dict[str, Any]:
    """Condition ids of the given rows of a batch, as tensors or lists; ids of shape (1,) hold for all rows and stay."""
    return {
        name: ids if len(ids) == 1 else ids[rows] if isinstance(ids, Tensor) else [ids[row] for row in rows]
        for name, ids in conditions.items()
    }
