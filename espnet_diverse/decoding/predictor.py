"""Batched search with a trained model: utterances in, texts out."""

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.audio.features import read_features
from espnet_diverse.audio.reading import read_at
from espnet_diverse.audio.segments import Segment
from espnet_diverse.cpu.allocator import return_freed_memory
from espnet_diverse.decoding import attention_alignment, ctc_alignment
from espnet_diverse.decoding.build_search import build_search, run_search
from espnet_diverse.decoding.condition_ids import known_conditions
from espnet_diverse.decoding.encoder.encoding import Encoded, check_finite, check_parts
from espnet_diverse.decoding.encoder.long_audio import check_long_audio, features_of_blocks
from espnet_diverse.decoding.encoder.precision import check_device, check_precision, set_precision
from espnet_diverse.decoding.espnet.espnet_beam import ESPnetBeamSearch, TransducerSearch
from espnet_diverse.decoding.espnet.multitask import DecoderPrompt, MultitaskSearch
from espnet_diverse.decoding.espnet.multitask_ctc import PROMPTS, encoding_of
from espnet_diverse.decoding.options import (
    MULTITASK,
    SEARCHED_TASKS,
    SearchOptions,
    check_search,
    has_ctc,
    text_task,
    usual_ctc_weight,
)
from espnet_diverse.decoding.prediction import Prediction, Spans, Text
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.search.fusion import Fusion, language_model_of, load_language_model, used_language_model
from espnet_diverse.decoding.search.greedy import GreedySearch
from espnet_diverse.decoding.search.hotwords import Hotwords, HotwordScorer, load_hotwords
from espnet_diverse.decoding.search.ngram import NgramScorer
from espnet_diverse.decoding.search.shortlist import Shortlist, load_shortlist
from espnet_diverse.decoding.source_text import SourceText
from espnet_diverse.decoding.token_text import TokenText
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.copies import copied
from espnet_diverse.nets.adapters.low_rank import merge_low_rank
from espnet_diverse.runs.audio_rate import audio_rate, required_rate
from espnet_diverse.runs.compilation import compile_layers
from espnet_diverse.runs.model_files import find_weights
from espnet_diverse.runs.tasks import TASKS, read_config, source_table
from espnet_diverse.scope import scope

_BATCH_FRAMES = 24_000  # of features: 240 seconds of 10 ms


class Predictor:
    """Our beam search, greedy search or sampling with one model.

    A predictor can be shared by threads: search options are arguments of a call and never stored, and a lock lets one
    call at a time use the model.

    Args:
        model: Model of speech recognition, speech translation or text translation.
        args: Arguments that the model was trained with.
        task: Task of the model: "asr", "st", "mt", "s2t" or "s2t_ctc".
        options: Default search options. `options.search` is the algorithm of every call.
        device: Device of the model, such as "cpu" or "cuda:0".
        precision: Precision of linear layers, one of `options.PRECISIONS`.
        compiled: Whether encoder layers are compiled.
        language_model: Language model over the same tokens, or None.
        hotwords: Phrases, or the path of a file with one a line, or None.
        shortlist: Tokens that the translation of a text may have, or None for all.

    Attributes:
        args, task, precision, compiled, language_model, hotwords: As given.
        parameters: Number of parameters that the model was trained with.
        rate: Sampling rate in Hz of the audio that the model reads; None for text and features.
        tokens: The vocabulary of the output text.
        prompt: Prompts of a multitask model; None for other models.
        options: Default search options, with `ctc_weight` as a number.
        ctc: CTC module over the output text; None for a model without it, and for a multitask model with a decoder.
        conditions: The conditions that the model depends on.
        names_language: Whether the model writes the spoken language itself, as a multitask model and Whisper do.
        translates: Whether the model can also write another language than the spoken one, if it is asked to.
        times: Indices of the tokens for times that the decoder can write, as Whisper does; none for other models.
        seconds: Greatest length of audio that the model reads; infinite for most.
        source_text: Tokens of texts to translate; None for models that read audio or features.
        table: Table of a data directory that names the inputs.
        batch_size, nbest: Default numbers of utterances in a batch, and of hypotheses that are requested.
        batch_frames: Maximum number of frames in a batch, padding included.
        used: Entries of decode.json: the name of the weights, and the entries from `used_language_model`.
        warned: Conditions that a warning said to have no effect, which is not repeated.

    Raises:
        ConfigError: The options ask for CTC, and the model was trained without it.
        ModelError: The model has parts that neither our search nor ESPnet's supports.
    """

    def __init__(
        self,
        model: nn.Module,
        args: Namespace,
        task: str,
        options: SearchOptions,
        device: str = "cpu",
        precision: str = "float32",
        compiled: bool = False,
        language_model: nn.Module | NgramScorer | None = None,
        hotwords: Hotwords | None = None,
        shortlist: Shortlist | None = None,
    ):
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        merge_low_rank(model.eval(), by_condition=False)
        self.args, self.task, self.precision, self.compiled = args, task, precision, compiled
        self.device, self.language_model, self.hotwords = device, language_model, hotwords
        self.ctc: Any = getattr(model, "st_ctc" if task == "st" else "ctc", None)
        self.rate = None if task == "mt" else audio_rate(vars(args))
        self.prompt = PROMPTS[task](args) if task in PROMPTS else None
        self.tokens = TokenText(args) if self.prompt is None else TokenText(args, self.prompt.special)
        weight = usual_ctc_weight(vars(args), task)
        self._has = self.ctc is not None, language_model is not None, weight, shortlist is not None
        self.options = options.resolved(*self._has)
        self.encoding = encoding_of(model, self.prompt, device)
        model, prompt = self.encoding.model, self.prompt if isinstance(self.prompt, DecoderPrompt) else None
        phrases = None if hotwords is None else load_hotwords(hotwords, self.options.search, self.tokens, device)
        helpers = language_model, phrases, prompt, shortlist
        self.search = build_search(model, self.ctc, self.options, task == "mt", *helpers)
        self.ctc = self.ctc if prompt is None else None  # that CTC is over another text
        if precision != "float32" and isinstance(self.search, TransducerSearch):
            raise ConfigError(f"precision {precision} is not possible with a transducer; set float32")
        attention = [scorer.attention for scorer in getattr(self.search, "scorers", ())]
        fused = [language_model] if isinstance(language_model, nn.Module) else []
        if compiled:
            compile_layers(model.get_submodule("encoder"), True)
        set_precision([model, *fused, *attention], precision)
        self.conditions = known_conditions(model) if self.prompt is None else self.prompt.conditions
        is_multitask = isinstance(self.search, MultitaskSearch)
        self._namer: Any = self.search if is_multitask else getattr(model, "decoder", None)
        self.names_language = hasattr(self._namer, "languages") and "lang" in self.conditions.names
        self.translates = "tgtlang" in self.conditions.names and (task in MULTITASK or self.names_language)
        self.times: range = getattr(self._namer, "times", range(0))
        self.seconds: float = getattr(self.prompt or getattr(model, "frontend", None), "seconds", inf)
        self.table = source_table(vars(args)) if task == "mt" else "wav.scp" if self.rate else "feats.scp"
        self.source_text = SourceText(args) if task == "mt" else None
        self.batch_size, self.batch_frames, self.nbest = options.batch_size, _BATCH_FRAMES, options.nbest
        self.used: dict[str, str | float] = {}
        self.warned: set[str] = set()
        self._lock = RLock()  # scorers cache keys of the current batch, and some modules their last output

    def resolve(self, options: SearchOptions | None) -> SearchOptions:
        """Search options of a call: `options` with `ctc_weight` as a number, or the default options.

        Raises:
            ConfigError: The options ask for CTC, and the model was trained without it, or for a search algorithm other
                than this predictor's.
        """
        if options is None:
            return self.options
        if options.search != self.options.search:
            raise ConfigError(
                f"search={options.search} is not possible: the model was loaded with search={self.options.search}; "
                "load it again with the other search"
            )
        options = options.resolved(*self._has)
        if isinstance(self.search, BeamSearch | ESPnetBeamSearch):
            self.search.check(options)
        return options

    @property
    def aligns(self) -> bool:
        """Whether the model gives the frames of tokens, by CTC or by heads that look at them."""
        return self.ctc is not None or attention_alignment.aligns(self.encoding.model)

    @property
    def has_hotwords(self) -> bool:
        """Whether the search has hotwords."""
        return isinstance(self.search, BeamSearch | TransducerSearch)

    def hotwords_of(self, hotwords: Hotwords | None) -> HotwordScorer | None:
        """Scorer of phrases for calls of `find`; None where there are none.

        Raises:
            ConfigError: The search has no hotwords.
            DataError: See `read_hotwords`.
        """
        if hotwords is None:
            return None
        if self.options.search == "batched" and not self.has_hotwords:
            raise ConfigError("hotwords are not possible with the search of this model; leave them out")
        return load_hotwords(hotwords, self.options.search, self.tokens, self.device)

    def read(self, value: str, segment: Segment | None = None) -> tuple[NDArray[np.generic], float]:
        """Read one input of the data directory's table.

        Args:
            value: Entry of the table: the path of an audio file, an entry of feats.scp, or a text to translate.
            segment: The part of the audio file to read; by default all of it.

        Returns:
            Features (T, F) and the duration of the audio in seconds, 0 where features were read; of a text its token
            indices (T,) and 0.

        Raises:
            DataError: The file cannot be read, or a text is too long, see `SourceText`.
            TooShortUttError: There are too few frames for the encoder.
        """
        if self.source_text is not None:
            return self.source_text(value, self.encoding.is_linear), 0.0
        if self.rate is None:
            return self.features(read_features(value)), 0.0
        samples, seconds = read_at(Path(value), self.rate, segment)
        return self.features(samples), seconds

    def features(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compute features (T, F) of samples (L,) float32 at `rate`, or normalise features (T, F).

        Raises:
            TooShortUttError: There are too few frames for the encoder.
        """
        if self.prompt is not None:
            samples = self.prompt.padded(samples)
        with self._lock:
            return self.encoding.features(samples)

    def features_of_blocks(self, blocks: Iterable[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Compute features (T, F) of a recording of any length from blocks (L,) float32 at `rate`, in bounded memory.

        Raises:
            ModelError: The model's features of a frame depend on more than the samples near it.
        """
        check_long_audio(self.encoding.model)
        with torch.inference_mode():
            return features_of_blocks(self.encoding.model, blocks, self.device)

    @torch.inference_mode()
    def encode(self, sources: Sequence[NDArray[np.generic]], conditions: Sequence[Mapping[str, int]]) -> Encoded:
        """Run the encoder over a batch, with the arguments of `find`; no utterance depends on the others.

        Raises:
            ModelError: The output is not finite.
        """
        ids = self._ids(conditions)
        with self._lock:
            features = sources if self.source_text is None else [self.encoding.features(source) for source in sources]
            return Encoded(*check_finite(*self.encoding.encode(features, ids)), ids)

    def batch(
        self,
        sources: Sequence[NDArray[np.generic]],
        conditions: Sequence[Mapping[str, int]],
        options: SearchOptions | None = None,
    ) -> list[list[Text]]:
        """The n-best texts of each utterance, best first; arguments and errors as in `find`."""
        return [prediction.texts for prediction in self.find(sources, conditions, options)]

    def find(
        self,
        sources: Sequence[NDArray[np.generic]],
        conditions: Sequence[Mapping[str, int]],
        options: SearchOptions | None = None,
        posteriors: bool = False,
        hotwords: HotwordScorer | None = None,
        spans: bool = False,
        timed: bool = False,
    ) -> list[Prediction]:
        """Decode a batch of utterances.

        Args:
            sources: Output of `read` for each utterance.
            conditions: Condition indices of each utterance.
            options: Search options of this call; by default those that the model was loaded with.
            posteriors: Whether to return CTC log probabilities; the model must have CTC.
            hotwords: Scorer of hotwords for this call, from `hotwords_of`, instead of the search's own.
            spans: Whether to align the best texts by attention; the model must have heads for it (`aligns`).
            timed: Whether tokens include `times`; see `check_timed`.

        Raises:
            ConfigError: The options are not possible with this model, see `resolve`.
            ModelError: The output of the encoder is not finite.
        """
        options = self.resolve(options)
        with self._lock, torch.inference_mode():
            source, lengths, ids = self.encode(sources, conditions)
            log_probs = self.ctc.log_softmax(source) if posteriors else None
            host = {name: [indices[name] for indices in conditions] for name in ids}
            with scope(ids, host=host, collect=False):
                results = run_search(self.search, source, lengths, options, sources, hotwords, log_probs, timed)
            frames = [None] * len(results) if log_probs is None else log_probs.cpu()
            texts = [[self.tokens.decode(*hypothesis) for hypothesis in best] for best in results]
            aligned: Sequence[Spans | None] = [None] * len(results)
            if spans:
                best_ids = [self.tokens.indices(best[0].tokens) if best else [] for best in texts]
                aligned = attention_alignment.align(self.encoding.model, Encoded(source, lengths, ids), best_ids)
        first, rows = self.encoding.prompt_frames, zip(texts, frames, lengths.tolist(), aligned, strict=True)
        return [Prediction(best, None if x is None else x[first:end], alignment) for best, x, end, alignment in rows]

    @torch.inference_mode()
    def spans(self, features: NDArray[np.float32], conditions: Mapping[str, int], text: Sequence[int]) -> Spans | None:
        """Frames of the tokens of a known text, by CTC or by attention; None if it has more tokens than CTC has frames.

        Args:
            features: Output of `features`.
            conditions: Condition indices of the utterance.
            text: Token indices.
        """
        with self._lock:
            encoded = self.encode([features], [conditions])
            if self.ctc is None:
                return attention_alignment.align(self.encoding.model, encoded, [text])[0]
            frames = slice(self.encoding.prompt_frames, int(encoded.lengths[0]))
            return ctc_alignment.align(self.ctc.log_softmax(encoded.output)[0, frames].cpu(), text, self.ctc)

    def find_long(self, features: NDArray[np.float32], conditions: Mapping[str, int]) -> Prediction:
        """Decode an utterance of any length by greedy CTC, whose cost grows linearly: see `Encoding.encode_long`.

        Raises:
            ConfigError: The model was trained without CTC.
            ModelError: The output of the encoder is not finite.
        """
        if self.ctc is None:
            raise ConfigError("long audio is decoded by CTC, and the model was trained without it; use segmentation")
        ids = self._ids([conditions])
        with self._lock, torch.inference_mode():
            source, lengths = check_finite(*self.encoding.encode_long(features, ids, self.batch_size))
            (best,) = GreedySearch(self.ctc)(source, lengths, self.options)
        return Prediction([self.tokens.decode(*hypothesis) for hypothesis in best], None)

    def languages(self, features: NDArray[np.float32]) -> dict[str, float]:
        """Probabilities of the spoken language of features (T, F) by a model that names it, highest first."""
        with self._lock, torch.inference_mode():
            source, _ = check_finite(*self.encoding.encode([features], {}))
            return self._namer.languages(source[0])

    def _ids(self, conditions: Sequence[Mapping[str, int]]) -> dict[str, Tensor]:
        """Indices (B,) by condition of the model."""
        return {
            condition: copied([indices[condition] for indices in conditions], self.device)
            for condition in self.conditions.names
        }


def load_predictor(
    model_dir: Path,
    model_file: str | Path | None = None,
    options: SearchOptions | None = None,
    device: str = "cpu",
    precision: str = "float32",
    compiled: bool = False,
    fusion: Fusion | None = None,
    features: bool = False,
) -> Predictor:
    """Load a model for prediction; all its weights must fit. Its config.yaml gives the task.

    Args:
        model_dir: Directory of the run.
        model_file: Weights, see `find_weights`.
        options: Default search options.
        device: "cpu", "cuda" or "cuda:N".
        precision: Precision of linear layers, one of `options.PRECISIONS`.
        compiled: Whether encoder layers are compiled.
        fusion: Language model, hotwords and shortlist. Where it names no language model, the folder `language_model` of
            the run is used if it has one.
        features: Whether a model that reads features instead of audio is allowed.

    Raises:
        ConfigError: The options ask for CTC, and the model was trained without it, or for a search that is not possible
            with it; the device does not exist; or the precision or compilation is not possible on it.
        ModelError: A file is missing or damaged, the weights do not fit the configuration, or the model has parts that
            no search supports, or reads features.
        NoBatchedSearchError: The model has a part after its encoder, which only ESPnet's programs search with.
    """
    check_device(device := str(device))  # may be a torch.device
    check_precision(precision, device, compiled)
    config_file, options = Path(model_dir) / "config.yaml", options or SearchOptions()
    config = read_config(config_file)
    task = text_task(config, config_file, SEARCHED_TASKS)
    weights = find_weights(Path(model_dir), model_file, config)
    check_parts(config)
    if task != "mt" and (not features or task in PROMPTS):  # multitask models read audio of one length
        required_rate(config)
    check_search(config, options)
    folder = language_model_of(Path(model_dir), fusion := fusion or Fusion(), options.search, config.get("decoder"))
    has = has_ctc(config, task), folder is not None, usual_ctc_weight(config, task), fusion.shortlist is not None
    options = options.resolved(*has)  # before loading, which takes seconds
    model, args = TASKS[task].build_model_from_file(config_file, weights, device, config)
    lm: nn.Module | NgramScorer | None = None
    if folder is not None:
        lm = load_language_model(folder, fusion.weights, args.token_list, known_conditions(model), device)
    shortlist = None if fusion.shortlist is None else load_shortlist(Path(fusion.shortlist), args, task)
    predictor = Predictor(model, args, task, options, device, precision, compiled, lm, fusion.hotwords, shortlist)
    predictor.used = {"model_file": weights.name, **used_language_model(folder, fusion, options.lm_weight)}
    predictor.used |= {} if shortlist is None else {"shortlist": str(shortlist.path)}
    return_freed_memory()  # weights in other types and layouts
    return predictor
