"""Recognition while somebody speaks: ESPnet's contextual block encoders and its blockwise synchronous beam search.

Tsunoo et al. 2021, "Streaming Transformer ASR with blockwise synchronous beam search". The encoder reads blocks of
frames that hand on a context vector; the search extends hypotheses as far as the blocks support them, and goes one step
back where a hypothesis ends before the audio does. When the utterance ends, its encoder output is complete, and our own
search of it gives the text that the model gives for the recording: it costs less than the blockwise search of one more
block, which goes token by token through ESPnet's CTC prefix scores. With `search="espnet"` the blockwise search ends by
itself, and the text equals that of ESPnet's `Speech2TextStreaming` for the whole utterance.

ESPnet's classes do the work of the encoder and of the blockwise search. What is different:

- A partial result is the best running hypothesis; ESPnet returns those that ended, which most blocks have none of.
- A block is searched when it is complete; ESPnet waits for the next one.
- Samples are given to its frontend in parts that are long enough. It pads a short last part with zeros, and fails at a
  short first one, or drops two frames behind it.
- The search reads blocks of the encoder's size; ESPnet leaves it at 40, 16 and 16 frames for every model.
- A block that is not the last ends no hypothesis for its length. ESPnet then ends all of them and has none to go on.
- Its detection of repetitions is off: a token that a hypothesis has already stops the search until the end, which in
  texts of characters is nearly always the case.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from espnet.nets.batch_beam_search_online import BatchBeamSearchOnline
from espnet2.bin import asr_inference_streaming
from numpy.typing import NDArray

from espnet_diverse.decoding.build_search import Search, build_search
from espnet_diverse.decoding.condition_ids import KnownConditions, known_conditions
from espnet_diverse.decoding.fusion import Fusion, language_model_files, language_model_of
from espnet_diverse.decoding.ngram import is_ngram
from espnet_diverse.decoding.options import Options, has_ctc, text_task, usual_ctc_weight
from espnet_diverse.decoding.precision import check_device
from espnet_diverse.decoding.results import Text
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.registration import replaced_names
from espnet_diverse.scope import scope
from espnet_diverse.training.audio_rate import required_rate
from espnet_diverse.training.tasks import TASKS, find_weights, read_config

ENCODERS = ("contextual_block_transformer", "contextual_block_conformer", "diverse_contextual_block_transformer")
"""Encoders that stream."""
_SUBSAMPLING = ("conv2d", "conv2d6", "conv2d8")
_SIZES = ("block_size", "hop_size", "look_ahead")


class BlockSearch:
    """Recognises one utterance after the other, each from samples as they come.

    Args:
        speech2text: ESPnet's `Speech2TextStreaming`; its search gets the block sizes of the encoder.
        conditions: The conditions that the model depends on.
        rate: Sampling rate in Hz of the audio that the model reads.
        options: Search options, resolved.

    Attributes:
        conditions, rate: As given.
        indices: Condition indices of what is spoken, for models that depend on conditions.
    """

    def __init__(self, speech2text: Any, conditions: KnownConditions, rate: int, options: Options):
        self.speech2text, self.conditions, self.rate, self.options = speech2text, conditions, rate, options
        self.indices: Mapping[str, int] = {}
        search, encoder = speech2text.beam_search, speech2text.asr_model.encoder
        search.__class__ = _OnlineSearch  # ESPnet selects its batched search in the same way
        search.disable_repetition_detection = True
        for name in _SIZES:
            setattr(search, name, getattr(encoder, name))
        self._whole = None if options.search == "espnet" else self._whole_search()
        hop, window = speech2text.hop_length, speech2text.win_length
        self._kept = window  # samples that are kept for the last part, which is then long enough
        self._least = window + 2 * -(-window // hop) * hop  # samples from which on ESPnet's frontend trims both ends
        self._shortest = 2 * encoder.subsample * hop  # samples of which the subsampling makes a frame
        self.reset()

    def _whole_search(self) -> Search:
        model, lm = self.speech2text.asr_model, self.speech2text.beam_search.scorers.get("lm")
        return build_search(model, model.ctc, self.options, False, lm)

    def reset(self) -> None:
        """Forget the utterance that was begun."""
        self.speech2text.reset()
        self._waiting = np.zeros(0, np.float32)
        self._begun = False

    @torch.inference_mode()
    def add(self, samples: NDArray, last: bool = False) -> Text:
        """Hear the next samples of an utterance.

        Args:
            samples: Samples (L,) float32 at `rate`, in parts of any length.
            last: Whether the utterance ends with them; the next call then begins a new one.

        Returns:
            The best text so far; with `last`, that of the utterance. It is empty where the utterance is too short.
        """
        self._waiting = np.concatenate([self._waiting, samples])
        if not last and len(self._waiting) < self._least + self._kept:
            return self._best()
        if last and not self._begun and len(self._waiting) < self._shortest:
            self.reset()
            return Text("", [], 0.0)
        ready = len(self._waiting) - (0 if last else self._kept)
        part, self._waiting = self._waiting[:ready], self._waiting[ready:]
        self._begun = True
        device = self.speech2text.device
        ids = {name: torch.tensor([index], device=device) for name, index in self.indices.items()}
        try:
            with scope(conditions=ids, collect=False):
                ended = self._step(part, last)
        except BaseException:
            self.reset()  # what ESPnet keeps of the utterance is of no use any more
            raise
        if not last:
            return self._best()
        self.reset()
        return ended

    def _step(self, part: NDArray, last: bool) -> Text:
        s2t = self.speech2text
        features, lengths, s2t.frontend_states = s2t.apply_frontend(torch.tensor(part), s2t.frontend_states, last)
        states = s2t.encoder_states
        out, _, s2t.encoder_states = s2t.asr_model.encoder(features, lengths, states, is_final=last, infer_mode=True)
        if last and self._whole is not None:
            before = s2t.beam_search.encbuffer
            source = out if before is None else torch.cat([before.unsqueeze(0), out], 1)
            lengths = torch.tensor([source.size(1)], device=source.device)
            (found,) = self._whole(source, lengths, self.options)
            return self._text(*found[0]) if found else self._best()
        ended = s2t.beam_search(out[0], is_final=last) if len(out[0]) or last else []
        return self._text(ended[0].yseq[1:-1].tolist(), ended[0].score) if ended and last else self._best()

    def _best(self) -> Text:
        """The best hypothesis that has not ended."""
        running = self.speech2text.beam_search.running_hyps
        if running is None or not len(running):
            return Text("", [], 0.0)
        best = int(running.score.argmax())
        return self._text(running.yseq[best, 1 : int(running.length[best])].tolist(), running.score[best])

    def _text(self, indices: Sequence[int], score: Any) -> Text:
        names = self.speech2text.converter.ids2tokens([index for index in indices if index])  # without blank
        return Text(self.speech2text.tokenizer.tokens2text(names), names, float(score))


class _OnlineSearch(BatchBeamSearchOnline):
    """ESPnet's search of a block; which blocks are searched is decided here."""

    def forward(self, x, maxlenratio=0.0, minlenratio=0.0, is_final=True):
        """Search the blocks that the next encoder output x (T, M) completes, and what is left if it `is_final`.

        ESPnet waits for a frame behind a block, which comes with the next one. It would be the last block otherwise;
        searched as both, it gives the same hypotheses.
        """
        self.encbuffer = x if self.encbuffer is None else torch.cat([self.encbuffer, x])
        frames = len(self.encbuffer)
        while (end := self.block_size - self.look_ahead + self.hop_size * self.processed_block) <= frames:
            if is_final and end == frames:
                break
            self._search_block(self.encbuffer[:end], False)
            self.processed_block += 1
        return self._search_block(self.encbuffer, True) if is_final and frames else []

    def _search_block(self, h: torch.Tensor, is_final: bool) -> list:
        if self.running_hyps is None:
            self.running_hyps = self.init_hyp(h)
        # Between two whole numbers: the loop stops there, and its last step, which would end all, is never reached.
        bound = len(h) if is_final else len(h) - 0.5
        return self.process_one_block(h, is_final, bound, 0, 0.0)

    def assemble_hyps(self, ended_hyps):
        return super().assemble_hyps(ended_hyps) if ended_hyps else []  # without a warning for each block


def load_block_search(
    model_dir: Path,
    model_file: str | Path | None = None,
    options: Options | None = None,
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
        fusion: Language model, see `load_predictor`; this search has no hotwords.

    Raises:
        ConfigError: The device does not exist, or an option is not possible here or with this model.
        ModelError: The model does not stream, a file is missing or damaged, or the weights do not fit.
    """
    check_device(device)
    config_file, options, fusion = Path(model_dir) / "config.yaml", options or Options(), fusion or Fusion()
    weights, config = find_weights(Path(model_dir), model_file), read_config(config_file)
    check_streaming(config, config_file)
    check_stream_options(options, fusion)
    folder, lm = language_model_of(Path(model_dir), fusion, options.search), {}
    if folder is not None and is_ngram(folder):
        logging.warning(
            "%s: its n-gram model is not used while streaming; scores and texts are those without it", model_dir
        )
        folder = None
    if folder is not None:
        lm = dict(zip(("lm_train_config", "lm_file"), language_model_files(folder, fusion.weights), strict=True))
    options = options.resolved(has_ctc(config, "asr"), folder is not None, usual_ctc_weight(config, "asr"))
    with replaced_names(asr_inference_streaming, ASRTask=_Task, LMTask=TASKS["lm"]):
        speech2text = asr_inference_streaming.Speech2TextStreaming(
            config_file, weights, device=device, **lm, **options.for_espnet()
        )
    return BlockSearch(speech2text, known_conditions(speech2text.asr_model), required_rate(config), options)


def check_streaming(config: Mapping, config_file: Path) -> None:
    """Refuse a model that cannot recognise while somebody speaks.

    Args:
        config: The model's configuration, from its config.yaml.
        config_file: Its path, for messages.

    Raises:
        ModelError: The task, the encoder, or a part before the encoder needs the whole utterance.
    """
    task, encoder = text_task(config, config_file), config.get("encoder")
    if task != "asr":
        raise ModelError(f"{config_file}: streaming is for models of task asr, and this one has task {task}")
    if encoder not in ENCODERS:
        raise ModelError(f"{config_file}: encoder {encoder} does not stream; those that do are {' '.join(ENCODERS)}")
    required_rate(config)
    conf = config.get("encoder_conf") or {}
    allowed: dict[str, tuple[Any, tuple]] = {
        "input_layer": (conf.get("input_layer", "conv2d"), _SUBSAMPLING),
        "frontend": (config.get("frontend") or "default", ("default",)),
        "normalize": (config.get("normalize", "utterance_mvn"), ("global_mvn", None)),
        "preencoder": (config.get("preencoder"), (None,)),
    }
    for part, (value, possible) in allowed.items():
        if value not in possible:
            names = " or ".join(map(str, possible))
            raise ModelError(f"{config_file}: {part} {value} needs a whole utterance; streaming needs {part} {names}")
    if conf.get("block_size") == 0:
        raise ModelError(f"{config_file}: block_size 0 is a single block; streaming needs encoder_conf.block_size > 0")


def check_stream_options(options: Options, fusion: Fusion) -> None:
    """Refuse what a search cannot do while somebody speaks.

    Raises:
        ConfigError: An option or a part of the fusion is not possible.
    """
    if options.search not in ("batched", "espnet"):
        raise ConfigError(f"search={options.search} is not possible while streaming; set search=batched")
    if options.nbest > 1:
        raise ConfigError(f"nbest {options.nbest} is not possible while streaming, which gives one text; leave it out")
    if options.search == "espnet" and (options.minlenratio or options.maxlenratio):
        raise ConfigError("minlenratio and maxlenratio need the whole utterance; set search=batched, or leave them out")
    if fusion.hotwords is not None:
        raise ConfigError("hotwords are not possible while streaming; leave them out")
    if fusion.language_model is not None and is_ngram(fusion.language_model):
        raise ConfigError("an n-gram model is not possible while streaming; leave --lm out")


class _Task(TASKS["asr"]):  # type: ignore[misc,name-defined]
    """The task; ESPnet's class asserts that config.yaml has the block sizes, which it need not for their defaults."""

    @classmethod
    def build_model_from_file(cls, *args, **options):
        model, trained = super().build_model_from_file(*args, **options)
        trained.encoder_conf = {name: getattr(model.encoder, name) for name in _SIZES} | trained.encoder_conf
        return model, trained
