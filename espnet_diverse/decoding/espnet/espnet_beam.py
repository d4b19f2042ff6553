"""ESPnet's own searches over the encoder outputs of a batch, one utterance at a time, for nets without a batched one.

Encoder, features and options are the same as in the batched search; only the hypotheses are found by ESPnet's code:
`BeamSearch` with any decoder and any language model that ESPnet can score with, and `BeamSearchTransducer`.
"""

from collections.abc import Sequence

import torch
from espnet2.asr.decoder.linear_decoder import LinearDecoder
from espnet2.asr.decoder.s4_decoder import S4Decoder
from espnet2.asr.transducer.beam_search_transducer import BeamSearchTransducer
from torch import Tensor, nn

from espnet_diverse.decoding.encoder.quiet import quiet
from espnet_diverse.decoding.espnet.transducer_hotwords import SEARCH, TransducerHotwords
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam import Hypothesis
from espnet_diverse.decoding.search.beam_search import of_rows
from espnet_diverse.decoding.search.hotwords import HotwordScorer, without_repeats
from espnet_diverse.decoding.search.ngram import NgramScorer
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets.whisper.byte_ctc import ByteCTC
from espnet_diverse.scope import current, scope
from espnet_diverse.upstream.search import (
    BatchBeamSearch,
    BatchScorerInterface,
    BeamSearch,
    CTCPrefixScorer,
    LengthBonus,
    ScorerInterface,
)


class ESPnetBeamSearch:
    """ESPnet's beam search with the modules of one model. Options are arguments of a call.

    Args:
        model: Model of speech recognition, speech translation or text translation.
        ctc: CTC module over the output text, or None.
        language_model: Language model of any class over the same tokens, or None.
        of_text: Whether the source is text, see `SearchOptions.greatest`.
    """

    lacks: tuple[str, ...] = ("length_penalty",)

    def __init__(
        self,
        model: nn.Module,
        ctc: nn.Module | None,
        language_model: nn.Module | NgramScorer | None = None,
        of_text: bool = False,
    ):
        self.model, self.of_text, self.named = model, of_text, type(model.decoder).__name__
        self.parts = {
            "decoder": model.decoder,
            "ctc": None if ctc is None else CTCPrefixScorer(ctc=ctc, eos=model.eos),
            "lm": language_model.espnets if isinstance(language_model, NgramScorer) else language_model,
            "length_bonus": LengthBonus(len(model.token_list)),
        }

    def check(self, options: SearchOptions) -> None:
        """Refuse options that this search does not have.

        Raises:
            ConfigError: One of these options is not 0, or CTC counts and is over bytes.
        """
        if options.ctc_weight and isinstance(getattr(self.model, "ctc", None), ByteCTC):
            raise ConfigError("search=espnet cannot read CTC over bytes; set ctc_weight=0, or leave search out")
        for name in self.lacks:
            if getattr(options, name):
                reason = f"{name} {getattr(options, name)} is not possible with {self.named}"
                raise ConfigError(f"{reason}, which ESPnet's search decodes; leave it out")

    @torch.inference_mode()
    def __call__(self, source: Tensor, lengths: Tensor, options: SearchOptions) -> list[list[Hypothesis]]:
        """Search for the best hypotheses of each utterance; arguments and result as in our `BeamSearch`."""
        self.check(options)
        results, conditions = [], current().conditions
        for row, length in enumerate(lengths.tolist()):
            ids = of_rows(conditions, torch.tensor([row], device=source.device))
            with scope(conditions=ids, collect=False), quiet():
                results.append(self._one(source[row, :length], options))
        return results

    def _one(self, source: Tensor, options: SearchOptions) -> list[Hypothesis]:
        """The best hypotheses of one utterance (T, M)."""
        search = self._search(options)
        search.to(device=source.device).eval()
        best = search(x=source, maxlenratio=options.maxlenratio, minlenratio=options.minlenratio)
        return [self._hypothesis(hyp) for hyp in best[: options.nbest]]

    def _hypothesis(self, hyp) -> Hypothesis:
        """Convert a hypothesis of ESPnet to ours; one that stopped at the greatest length may have two <eos>."""
        tokens = hyp.yseq[1:-1].tolist()
        return Hypothesis(tokens[:-1] if tokens[-1:] == [self.model.eos] else tokens, float(hyp.score))

    def _search(self, options: SearchOptions) -> BeamSearch:
        weights = {
            "decoder": 1 - options.ctc_weight,
            "ctc": options.ctc_weight,
            "lm": options.lm_weight,
            "length_bonus": options.penalty,
        }
        search = BeamSearch(
            scorers=self.parts,
            weights={**dict.fromkeys(self.parts, 1.0), **weights},
            beam_size=min(options.beam_size, len(self.model.token_list)),  # ESPnet takes as many tokens at first
            vocab_size=len(self.model.token_list),
            sos=self.model.sos,
            eos=self.model.eos,
            pre_beam_score_key=None if options.ctc_weight == 1 else "full",
        )
        choose_class(search, self.of_text and options.maxlenratio == 0)
        return search


class TransducerSearch(ESPnetBeamSearch):
    """ESPnet's beam search of a transducer (Graves 2012); a hypothesis has the score of its best alignments.

    With hotwords the search is time-synchronous, see `transducer_hotwords.py`, and scores are sums over alignments.

    Args:
        model: The transducer.
        language_model: Language model of any class over the same tokens, or None.
        hotwords: Scorer of hotwords, or None.

    Raises:
        ConfigError: The language model is an n-gram model.
        ModelError: The transducer has several blanks.
    """

    lacks = ("length_penalty", "ctc_weight", "penalty", "minlenratio", "maxlenratio")

    def __init__(
        self,
        model: nn.Module,
        language_model: nn.Module | NgramScorer | None = None,
        hotwords: HotwordScorer | None = None,
    ):
        super().__init__(model, None, language_model)
        self.hotwords = hotwords
        if isinstance(language_model, NgramScorer):
            raise ConfigError("ESPnet's search of a transducer takes no n-gram model; leave --lm out")
        if getattr(model, "transducer_multi_blank_durations", None):
            raise ModelError("a transducer with several blanks is not supported; use one with a single blank")

    def check(self, options: SearchOptions) -> None:
        """Refuse options that this search does not have, and hotwords without a beam.

        Raises:
            ConfigError: One of these options is not 0, or there are hotwords and the beam size is 1.
        """
        super().check(options)
        if self.hotwords is not None and options.hotword_weight and options.beam_size == 1:
            raise ConfigError(
                "a transducer has hotwords from beam_size 2 on, not with 1; set 2 or more, or leave them out"
            )

    def __call__(
        self, source: Tensor, lengths: Tensor, options: SearchOptions, hotwords: HotwordScorer | None = None
    ) -> list[list[Hypothesis]]:
        """Search for the best hypotheses of each utterance; arguments and result as in our `BeamSearch`."""
        if hotwords is not None:
            return TransducerSearch(self.model, self.parts["lm"], hotwords)(source, lengths, options)
        results = super().__call__(source, lengths, options)

        def again(rows: list[int], options: SearchOptions) -> None:
            index = torch.tensor(rows, device=source.device)
            with scope(conditions=of_rows(current().conditions, index), collect=False):
                best = super(TransducerSearch, self).__call__(source[index], lengths[index], options)
            for row, hypotheses in zip(rows, best, strict=True):
                results[row] = hypotheses

        if self.hotwords is not None:
            without_repeats(results, lengths.tolist(), options, self.hotwords, again)  # a frame may have two tokens
        return results

    def _one(self, source: Tensor, options: SearchOptions) -> list[Hypothesis]:
        if self.hotwords is not None and options.hotword_weight:
            return self._with_hotwords(source, options, self.hotwords)
        search = self._transducer(options.beam_size, self.parts["lm"], options.lm_weight, options.nbest)
        hyps: Sequence = search(source)
        return [Hypothesis(list(hyp.yseq[1:]), float(hyp.score)) for hyp in hyps[: options.nbest]]

    def _with_hotwords(self, source: Tensor, options: SearchOptions, hotwords: HotwordScorer) -> list[Hypothesis]:
        lm = self.parts["lm"], options.lm_weight, self.model.sos
        scorer = TransducerHotwords(hotwords, options.hotword_weight, *lm, str(source.device))
        size = min(options.beam_size, len(self.model.token_list) - 1)  # ESPnet takes as many tokens but for the blank
        search = self._transducer(size, scorer, 1.0, size, **SEARCH)
        hyps = search(source)
        for hyp in hyps:
            hyp.score -= scorer.unfinished(hyp.yseq[1:])
        return [Hypothesis(list(hyp.yseq[1:]), float(hyp.score)) for hyp in search.sort_nbest(hyps)[: options.nbest]]

    def _transducer(self, beam_size: int, lm, lm_weight: float, nbest: int, **search) -> BeamSearchTransducer:
        parts = {"decoder": self.model.decoder, "joint_network": self.model.joint_network, "lm": lm}
        return BeamSearchTransducer(**parts, beam_size=beam_size, lm_weight=lm_weight, nbest=nbest, **search)


def check_decoder(decoder: nn.Module | None) -> None:
    """Refuse a decoder that makes no text token by token, or that needs ESPnet's own program; None (CTC alone) passes.

    Raises:
        ModelError: The class of the decoder is not supported.
    """
    if decoder is None:
        return
    if type(decoder).score is ScorerInterface.score or isinstance(decoder, LinearDecoder | S4Decoder):
        raise ModelError(f"{type(decoder).__name__} has no search here; ESPnet's programs may run the model")


def choose_class(search: BeamSearch, bounded: bool) -> None:
    """Have ESPnet's search score hypotheses together where all scorers can, as ESPnet's programs do.

    Args:
        search: ESPnet's search.
        bounded: Whether hypotheses have the bound for text, see `SearchOptions.greatest`.
    """
    if all(isinstance(scorer, BatchScorerInterface) for scorer in search.full_scorers.values()):
        search.__class__ = _BatchTextSearch if bounded else BatchBeamSearch
    elif bounded:
        search.__class__ = _TextSearch


class _TextSearch(BeamSearch):
    """ESPnet's search of text translation, hypothesis by hypothesis, for `maxlenratio` 0 with our bound for text."""

    def forward(self, x, maxlenratio=0.0, minlenratio=0.0, pre_x=None):
        bound = -_greatest(self, len(x))  # ESPnet takes a negative ratio as minus the number
        return super().forward(x, bound, minlenratio, pre_x)

    def post_process(self, i, maxlen, minlen, maxlenratio, running_hyps, ended_hyps):
        running = super().post_process(i, maxlen, minlen, maxlenratio, running_hyps, ended_hyps)
        return [] if self.end_detected(ended_hyps, i) else running  # which ESPnet detects without a bound only


class _BatchTextSearch(BatchBeamSearch):
    """ESPnet's search of text translation, all hypotheses together, for `maxlenratio` 0 with our bound for text."""

    def _length_bounds(self, inp_lengths, maxlenratio, minlenratio):
        _, minlens = super()._length_bounds(inp_lengths, maxlenratio, minlenratio)
        return [_greatest(self, length) for length in inp_lengths], minlens


def _greatest(search: BeamSearch, length: int) -> int:
    """Return our bound for text, given the length of the encoder's output."""
    return SearchOptions().greatest(length - getattr(search.nn_dict["decoder"], "state_rows", 0), of_text=True)
