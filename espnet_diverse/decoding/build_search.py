"""The search of a loaded model, by its options and its decoder."""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.contrib.flowseq import FlowDecoder
from espnet_diverse.decoding.espnet.espnet_beam import ESPnetBeamSearch, TransducerSearch, check_decoder
from espnet_diverse.decoding.espnet.multitask import DecoderPrompt, MultitaskSearch
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam import Hypothesis
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.search.greedy import GreedySearch
from espnet_diverse.decoding.search.hotwords import HotwordScorer
from espnet_diverse.decoding.search.ngram import NgramScorer
from espnet_diverse.decoding.search.one_pass import OnePassSearch
from espnet_diverse.decoding.search.sampling import SamplingSearch
from espnet_diverse.decoding.search.shortlist import Shortlist
from espnet_diverse.errors import ConfigError, NoBatchedSearchError

log = logging.getLogger(__name__)

Search = BeamSearch | ESPnetBeamSearch | GreedySearch | OnePassSearch | SamplingSearch


def build_search(
    model: nn.Module,
    ctc: nn.Module | None,
    options: SearchOptions,
    of_text: bool,
    language_model: nn.Module | NgramScorer | None = None,
    hotwords: HotwordScorer | None = None,
    prompt: DecoderPrompt | None = None,
    shortlist: Shortlist | None = None,
) -> Search:
    """Build the search for options and model; ESPnet's search, with one warning, where ours does not support a net.

    Args:
        model: Model of speech recognition, speech translation or text translation.
        ctc: CTC module over the output text, or None.
        options: Search options, resolved.
        of_text: Whether the source is text, see `SearchOptions.greatest`.
        language_model: Language model over the same tokens, or None.
        hotwords: Scorer of hotwords, or None.
        prompt: Prompts of a multitask model with a decoder; None for another model.
        shortlist: Tokens that the translation of a text may have, or None for all.

    Raises:
        ConfigError: The model translates in one pass, and there is a language model, a hotword or a shortlist; the
            model is multitask, and another search than the batched one is named, or a hotword; the model needs
            ESPnet's search, and an option is given that this search lacks, a shortlist, or a hotword for a model other
            than a transducer; or the decoder cannot be sampled from.
        ModelError: The decoder is of a class that ESPnet's search does not support either.
    """
    if prompt is not None:
        if options.search != "batched":
            raise ConfigError(f"search={options.search} is not possible with a multitask model; set search=batched")
        if hotwords is not None:
            raise ConfigError("hotwords are not possible with a multitask model; leave them out")
        reason = "a multitask model has no batched search"
        return _of_espnet(MultitaskSearch(model, prompt, language_model), options, reason)
    if isinstance(language_model, nn.Module):
        _warn_of_ends(model)
    if isinstance(model.decoder, FlowDecoder):
        if language_model is not None or hotwords is not None or shortlist is not None:
            unsupported = "neither language model nor hotwords nor shortlist"
            raise ConfigError(f"a non-autoregressive model has {unsupported}; leave them out")
        return OnePassSearch(model.decoder, model.eos)
    if options.search == "greedy":
        return GreedySearch(ctc)
    if options.search == "sampling":
        return _sampling(model, of_text)
    decoder = None if options.ctc_weight == 1 else model.decoder  # its class may have no batched search
    try:
        return BeamSearch(decoder, ctc, model.eos, language_model, hotwords, of_text, model.sos, shortlist)
    except NoBatchedSearchError as error:
        reason = str(error).partition(";")[0]
    is_transducer = getattr(model, "use_transducer_decoder", False)
    if options.search != "batched" or shortlist is not None or (hotwords is not None and not is_transducer):
        unsupported = "hotwords are" if hotwords is not None else f"search={options.search} is"
        unsupported = "a shortlist is" if shortlist is not None else unsupported
        raise ConfigError(f"{unsupported} not possible: {reason}; leave it out")
    if is_transducer:
        return _of_espnet(TransducerSearch(model, language_model, hotwords), options, reason)
    check_decoder(model.decoder)
    return _of_espnet(ESPnetBeamSearch(model, ctc, language_model, of_text), options, reason)


def _warn_of_ends(model: nn.Module) -> None:
    """Warn where texts begin or end with other tokens than those of a neural language model, which have the last."""
    if {model.sos, model.eos} != {len(model.token_list) - 1}:
        start, end, last = (model.token_list[index] for index in (model.sos, model.eos, -1))
        message = "texts begin with %s and end with %s, but those of the language model with %s; an n-gram fits"
        log.warning(message, start, end, last)


def _of_espnet(search: ESPnetBeamSearch, options: SearchOptions, reason: str) -> ESPnetBeamSearch:
    """The search, with a warning, after its check of the options."""
    search.check(options)
    log.warning("%s: ESPnet's is used, one utterance at a time", reason)
    return search


def _sampling(model: nn.Module, of_text: bool) -> SamplingSearch:
    try:
        return SamplingSearch(model.decoder, model.eos, of_text, model.sos)
    except NoBatchedSearchError as error:
        raise ConfigError("search=sampling needs a transformer decoder; set search=batched") from error


def run_search(
    search: Search,
    source: Tensor,
    lengths: Tensor,
    options: SearchOptions,
    utterances: Sequence[NDArray[np.generic]],
    hotwords: HotwordScorer | None,
    log_probs: Tensor | None,
    timed: bool,
) -> list[list[Hypothesis]]:
    """Search with what the class of a search reads; arguments as in `Predictor.find`, with source (B, T, M)."""
    if isinstance(search, SamplingSearch):
        return search(source, lengths, options, utterances, timed)
    if isinstance(search, BeamSearch):
        return search(source, lengths, options, hotwords, log_probs, timed, utterances)
    if isinstance(search, TransducerSearch):
        return search(source, lengths, options, hotwords)
    return search(source, lengths, options)
