"""Streaming recognition by a blockwise encoder and ESPnet's blockwise synchronous search.

Tsunoo et al. 2021, "Streaming Transformer ASR with blockwise synchronous beam search". The encoder reads blocks of
frames (`stream_encoder.py`); the search extends hypotheses as far as the blocks support them, and goes one step back
where a hypothesis ends before the audio does. When the utterance ends, our own search of its complete encoder output
gives the final text, which is the text of the model for the whole recording. This costs less than the blockwise search
of one more block, which computes ESPnet's CTC prefix scores token by token. With `search="espnet"` the blockwise search
also gives the final text; for a contextual block encoder it is the text of ESPnet's `Speech2TextStreaming` for the
whole utterance.

ESPnet's classes do the work of the frontend and of the blockwise search (`espnet_streaming.py`). The differences:

- A partial result is the best running hypothesis; ESPnet returns hypotheses that have ended, and most blocks have none.
- The frontend gets parts of sufficient length. ESPnet's pads a short last part with zeros, and fails at a short first
  part, or drops two frames after it.
"""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from espnet2.tasks import asr
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.decoding.build_search import Search, build_search
from espnet_diverse.decoding.condition_ids import known_conditions
from espnet_diverse.decoding.encoder.encoding import Encoding, check_finite, check_parts
from espnet_diverse.decoding.encoder.precision import check_device
from espnet_diverse.decoding.options import SearchOptions, has_ctc, text_task, usual_ctc_weight
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.decoding.search.beam import before_end
from espnet_diverse.decoding.search.fusion import Fusion, language_model_of, load_language_model, used_language_model
from espnet_diverse.decoding.search.hotwords import Hotwords, load_hotwords
from espnet_diverse.decoding.search.ngram import is_ngram
from espnet_diverse.decoding.streaming.espnet_streaming import SIZES, speech2text
from espnet_diverse.decoding.streaming.stream_encoder import stream_encoder, unfit_for_streams
from espnet_diverse.decoding.token_text import TokenText
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.functional.copies import copied
from espnet_diverse.runs.audio_rate import required_rate
from espnet_diverse.runs.model_files import find_weights
from espnet_diverse.runs.tasks import TASKS, read_config
from espnet_diverse.scope import scope
from espnet_diverse.upstream.layers import TooShortUttError
from espnet_diverse.upstream.search import BatchScorerInterface


class BlockSearch:
    """Recognises one utterance after the other, each from samples as they come.

    Args:
        model: ESPnet's model of speech recognition, or ours; another search may use it at the same time.
        args: Arguments that the model was trained with.
        options: Search options, resolved.
        device: Device of the model.
        language_model: Language model over the same tokens, or None.
        hotwords: Phrases that get a bonus in final texts, or None; partial texts are without it.

    Attributes:
        speech2text: ESPnet's `Speech2TextStreaming` of the model; its search has the block sizes of the encoder.
        encoder: The encoder, part by part.
        conditions: The conditions that the model depends on.
        rate: Sampling rate in Hz of the audio that the model reads.
        options: The search options.
        task, device: Task of the model, and its device.
        indices: Condition indices of the speech, for models that depend on conditions.
        stream: Identity of the stream that is recognised.
        tokens: The vocabulary of the text.
    """

    def __init__(
        self,
        model: nn.Module,
        args: Namespace,
        options: SearchOptions,
        device: str = "cpu",
        language_model: nn.Module | None = None,
        hotwords: Hotwords | None = None,
    ):
        self.conditions, self.rate, self.options = known_conditions(model), required_rate(vars(args)), options
        self.indices: Mapping[str, int] = {}
        self.task, self.device, self.stream, self.tokens = "asr", device, object(), TokenText(args)
        self.encoder, self._encoding = stream_encoder(model.encoder), Encoding(model, device)
        sizes = {name: getattr(self.encoder, name) for name in SIZES}
        self.speech2text = speech2text(model, args, sizes, options, device, language_model)
        phrases = None if hotwords is None else load_hotwords(hotwords, options.search, self.tokens, device)
        self._whole: Search | None = None
        if options.search != "espnet":
            self._whole = build_search(model, model.ctc, options, False, language_model, phrases)
        hop, window = self.speech2text.hop_length, self.speech2text.win_length
        self._kept = window  # samples that are kept for the last part, which is then long enough
        # Samples from which on ESPnet's frontend trims both ends, and the subsampling makes a frame.
        self._least = max(window + 2 * -(-window // hop) * hop, 2 * self.encoder.subsample * hop)
        self.reset()

    def reset(self) -> None:
        """Discard the utterance that has begun."""
        self.speech2text.reset()
        self.encoder.reset()
        self._waiting = np.zeros(0, np.float32)
        self._begun = False

    @torch.inference_mode()
    def add(self, samples: NDArray, last: bool = False) -> Text:
        """Process the next samples of an utterance.

        Args:
            samples: Samples (L,) float32 at `rate`, in parts of any length.
            last: Whether the utterance ends with them; the next call then begins a new one.

        Returns:
            The best text so far; with `last`, the final text. It is empty where the utterance is too short.
        """
        self._waiting = np.concatenate([self._waiting, samples])
        if not last and len(self._waiting) < self._least + self._kept:
            return self._best()
        ready = len(self._waiting) - (0 if last else self._kept)
        part, self._waiting = self._waiting[:ready], self._waiting[ready:]
        device = self.speech2text.device
        ids = {name: torch.tensor([index], device=device) for name, index in self.indices.items()}
        try:
            with scope(conditions=ids, collect=False):
                ended = self._step(self._features(part, last), last)
        except TooShortUttError:
            ended = Text("", [], 0.0)
        except BaseException:
            self.reset()  # what ESPnet stored of the utterance cannot be used any more
            raise
        if not last:
            return self._best()
        self.reset()
        return ended

    def _features(self, part: NDArray, last: bool) -> Tensor:
        """Features (1, T, F) of the next samples (L,).

        Raises:
            TooShortUttError: The utterance ends with them, and has too few frames for the encoder.
        """
        s2t = self.speech2text
        if last and not self._begun:  # ESPnet's frontend would pad parts shorter than its window
            return copied(self._encoding.features(part), s2t.device).unsqueeze(0)
        self._begun = True
        features, _, s2t.frontend_states = s2t.apply_frontend(torch.tensor(part), s2t.frontend_states, last)
        return features

    def _step(self, features: Tensor, last: bool) -> Text:
        s2t = self.speech2text
        out = self.encoder.add(features, last)
        check_finite(out, copied([out.size(1)], out.device))
        if last and self._whole is not None:
            before = s2t.beam_search.encbuffer
            source = out if before is None else torch.cat([before.unsqueeze(0), out], 1)
            lengths = copied([source.size(1)], source.device)
            (best,) = self._whole(source, lengths, self.options)
            return self.tokens.decode(*best[0]) if best else self._best()
        ended = s2t.beam_search(out[0], is_final=last) if len(out[0]) or last else []
        if not ended or not last:
            return self._best()
        indices = before_end(ended[0].yseq[1:].tolist(), s2t.beam_search.eos)  # at the greatest length it has two <eos>
        return self.tokens.decode(indices, float(ended[0].score))

    def _best(self) -> Text:
        """The best hypothesis that has not ended."""
        running = self.speech2text.beam_search.running_hyps
        if running is None or not len(running):
            return Text("", [], 0.0)
        best = int(running.score.argmax())
        indices = running.yseq[best, 1 : int(running.length[best])].tolist()
        return self.tokens.decode(indices, float(running.score[best]))


def load_block_search(
    model_dir: Path,
    model_file: str | Path | None = None,
    options: SearchOptions | None = None,
    device: str = "cpu",
    fusion: Fusion | None = None,
) -> BlockSearch:
    """Load a model of speech recognition for streaming; all its weights must fit.

    Args:
        model_dir: Directory of the run.
        model_file: Weights, see `find_weights`.
        options: Search options; `search` is "batched", or "espnet" for the blockwise search alone. Partial results use
            the beam size, the penalty of a token and the weights.
        device: "cpu", "cuda" or "cuda:N".
        fusion: Language model, and hotwords for final texts; see `load_predictor`.

    Raises:
        ConfigError: The device does not exist, or an option is not possible here or with this model.
        DataError: The hotwords cannot be read, see `read_hotwords`.
        ModelError: The model does not stream, a file is missing or damaged, or the weights do not fit.
    """
    check_device(device := str(device))  # may be a torch.device
    config_file, options, fusion = Path(model_dir) / "config.yaml", options or SearchOptions(), fusion or Fusion()
    config = read_config(config_file)
    check_streaming(config, config_file)
    weights = find_weights(Path(model_dir), model_file, config)
    check_stream_options(options, fusion)
    folder = language_model_of(Path(model_dir), fusion, options.search, streams=True)
    options = options.resolved(has_ctc(config, "asr"), folder is not None, usual_ctc_weight(config, "asr"))
    model, args = TASKS["asr"].build_model_from_file(config_file, weights, device, config)
    used_language_model(folder, fusion, options.lm_weight)
    lm = folder and load_language_model(folder, fusion.weights, args.token_list, known_conditions(model), device)
    return BlockSearch(model.eval(), args, options, device, lm, fusion.hotwords)


def check_streaming(config: Mapping, config_file: Path) -> None:
    """Refuse a model that does not stream.

    Args:
        config: The model's configuration, from its config.yaml.
        config_file: Its path, for messages.

    Raises:
        ModelError: The task, the encoder, or a part before the encoder needs the whole utterance, or the decoder scores
            one hypothesis at a time.
    """
    if (task := text_task(config, config_file)) != "asr":
        raise ModelError(f"{config_file}: streaming is for models of task asr, and this one has task {task}")
    if fault := unfit_for_streams(config.get("encoder"), config.get("encoder_conf") or {}):
        raise ModelError(f"{config_file}: {fault}")
    check_parts(config)
    required_rate(config)
    decoder = config.get("decoder")
    if decoder is not None and not issubclass(asr.decoder_choices.get_class(decoder), BatchScorerInterface):
        scores = f"decoder {decoder} scores one hypothesis at a time"
        raise ModelError(f"{config_file}: {scores}; streaming needs one that scores several, such as transformer")
    allowed: dict[str, tuple[Any, tuple]] = {
        "frontend": (config.get("frontend") or "default", ("default",)),
        "frontend_conf.center": ((config.get("frontend_conf") or {}).get("center", True), (True,)),
        "normalize": (config.get("normalize", "utterance_mvn"), ("global_mvn", None)),
        "preencoder": (config.get("preencoder"), (None,)),
    }
    for part, (value, possible) in allowed.items():
        if value not in possible:
            names = " or ".join(map(str, possible))
            raise ModelError(f"{config_file}: {part} {value} needs a whole utterance; streaming needs {part} {names}")


def check_stream_options(options: SearchOptions, fusion: Fusion) -> None:
    """Refuse options that a streaming search does not have.

    Raises:
        ConfigError: An option or a part of the fusion is not possible.
    """
    if options.search not in ("batched", "espnet"):
        raise ConfigError(f"search={options.search} is not possible while streaming; set search=batched")
    if options.nbest > 1:
        raise ConfigError(f"nbest {options.nbest} is not possible while streaming, which gives one text; leave it out")
    if options.search == "espnet" and (options.minlenratio or options.maxlenratio):
        raise ConfigError("minlenratio and maxlenratio need the whole utterance; set search=batched, or leave them out")
    if is_ngram(Path(fusion.language_model or "")):
        raise ConfigError("an n-gram model is not possible while streaming; leave --lm out")
    if fusion.shortlist is not None:
        raise ConfigError(f"{fusion.shortlist}: a shortlist is for models that translate text; leave it out")
