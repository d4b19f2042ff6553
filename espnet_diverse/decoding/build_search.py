"""The search of a loaded model, by its options and its decoder."""

from torch import nn

from espnet_diverse.decoding.greedy import GreedySearch
from espnet_diverse.decoding.hotwords import HotwordScorer
from espnet_diverse.decoding.one_pass import OnePassSearch
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.sampling import SamplingSearch
from espnet_diverse.decoding.search import BeamSearch
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.flow import FlowDecoder

Search = BeamSearch | GreedySearch | OnePassSearch | SamplingSearch


def build_search(
    model: nn.Module,
    ctc: nn.Module | None,
    options: Options,
    of_text: bool,
    language_model: nn.Module | None = None,
    hotwords: HotwordScorer | None = None,
) -> Search:
    """Build the search that options and model ask for.

    Args:
        model: Model of speech recognition, speech translation or text translation.
        ctc: CTC module over the output text, or None.
        options: Search options, resolved.
        of_text: Whether the source is text, see `Options.greatest`.
        language_model: Transformer language model over the same tokens, or None.
        hotwords: Scorer of hotwords, or None.

    Raises:
        ConfigError: The model translates in one pass, and there is a language model or a hotword.
        ModelError: The decoder or the language model is of a class that batched search does not support.
    """
    if isinstance(model.decoder, FlowDecoder):
        if language_model is not None or hotwords is not None:
            raise ConfigError("a non-autoregressive model has neither language model nor hotwords; leave them out")
        return OnePassSearch(model.decoder, model.eos)
    if options.search == "greedy":
        return GreedySearch(ctc)
    if options.search == "sampling":
        return SamplingSearch(model.decoder, model.eos, of_text)
    decoder = None if options.ctc_weight == 1 else model.decoder  # which may be of a class without batched search
    return BeamSearch(decoder, ctc, model.eos, language_model, hotwords, of_text)
