"""Multitask models of CTC alone, such as OWSM-CTC: their encoder reads the prompt, and a long recording in windows.

Peng et al. 2024, "OWSM-CTC: An open encoder-only speech foundation model for speech recognition, translation, and
language identification". The symbols of the spoken language (<nolang> where it is not known) and of the task stand
before the frames of the audio; previous text, here none, is read by cross-attention.

Windows have the length of the training data, 30 seconds, and overlap: the frames of the two seconds at both ends of a
window are context, which is encoded and left out. Together the windows give the frames of the recording, from which
greedy CTC makes the text. The texts are the same as those from ESPnet's `decode_long`.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from itertools import batched
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from espnet2.asr.encoder.e_branchformer_ctc_encoder import EBranchformerCTCEncoder
from espnet2.s2t.espnet_ctc_model import ESPnetS2TCTCModel
from espnet2.train.preprocessor import S2TCTCPreprocessor
from espnet2.utils.get_default_kwargs import get_default_kwargs
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.decoding.condition_ids import KnownConditions, known_conditions
from espnet_diverse.decoding.encoder.encoding import Encoding
from espnet_diverse.decoding.espnet.multitask import DecoderPrompt, Prompt
from espnet_diverse.decoding.frame_times import frame_times
from espnet_diverse.errors import ModelError
from espnet_diverse.scope import current, scope

_CONTEXT_SECONDS = 2
_LENGTH = 2  # symbols of a prompt, each before the frames


class EncoderPrompt(Prompt):
    """The prompts of a model of task s2t_ctc, which its encoder reads.

    Attributes:
        no_language: Name in `conditions` of the symbol for a language that is not known, the default.
    """

    task = "s2t_ctc"
    symbols = ("nolang_symbol",)

    def __init__(self, args: Namespace):
        super().__init__(args)
        self.no_language = self.settings["nolang_symbol"][1:-1]
        names = [*self.languages, self.no_language]
        both = ("lang", "tgtlang")
        self.conditions = KnownConditions(dict.fromkeys(both, names), dict.fromkeys(both, self.no_language))

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return get_default_kwargs(S2TCTCPreprocessor) | dict(settings)


PROMPTS: dict[str, type[Prompt]] = {cls.task: cls for cls in (DecoderPrompt, EncoderPrompt)}
"""The prompts of multitask models by task."""


class PromptedModel(ESPnetS2TCTCModel):
    """A model of task s2t_ctc that makes its prompts itself, from the languages in the open scope.

    Args:
        model: ESPnet's model, or ours, whose parts it takes over.
        prompt: Its prompts.

    Raises:
        ModelError: The encoder reads no prompt.
    """

    preencoder = decoder = None  # which other models of speech have

    def __init__(self, model: ESPnetS2TCTCModel, prompt: EncoderPrompt):
        nn.Module.__init__(self)
        vars(self).update(vars(model))
        self.prompt, self.conditions = prompt, prompt.conditions
        if not isinstance(self.encoder, EBranchformerCTCEncoder):
            reason = f"encoder {type(self.encoder).__name__} of a model of task s2t_ctc reads no prompt"
            raise ModelError(f"{reason}; use a model with e_branchformer_ctc")

    def encode(self, speech: Tensor, speech_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode samples (B, L) of one length, padded to the length of the training data: see `encode_features`.

        Raises:
            DataError: There are more samples than the model reads, or see `encode_features`.
        """
        speech = F.pad(speech, (0, self.prompt.missing(speech.size(1))))
        features, lengths = self._extract_feats(speech, torch.full_like(speech_lengths, speech.size(1)))
        if self.normalize is not None:
            features, lengths = self.normalize(features, lengths)
        return self.encode_features(features, lengths)

    def encode_features(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode features (B, T, F) of one length -> frames (B, 2 + T', M), the prompt's 2 first, and lengths (B,).

        Raises:
            DataError: The model does not translate into the language in the scope.
        """
        pairs = zip(*(current().conditions[name].tolist() for name in ("lang", "tgtlang")), strict=True)
        symbols = lengths.new_tensor([self.prompt.language_and_task(*pair) for pair in pairs])
        previous, one = symbols.new_full((len(symbols), 1), self.na), torch.ones_like(lengths)
        memory, _, _ = self.prompt_encoder(self.pos_enc(self.embed(previous)), one)
        frames, lengths, _ = self.encoder(
            features,
            lengths,
            ctc=self.ctc,
            prefix_embeds=self.embed_proj(self.embed(symbols)),
            memory=self.prompt_proj(memory),
            memory_mask=one.bool().view(-1, 1, 1),
        )
        return (frames[0] if isinstance(frames, tuple) else frames), lengths  # without intermediate layers


class PromptedEncoding(Encoding):
    """The encoder of a `PromptedModel`; all its inputs have the length that the model reads."""

    model: PromptedModel
    prompt_frames = _LENGTH
    reads_windows = True

    def encode(self, utterances: Sequence[NDArray], conditions: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """See `Encoding`; the first `prompt_frames` frames of each output belong to the prompt."""
        features = torch.stack([torch.tensor(x, device=self.device) for x in utterances])
        lengths = torch.tensor([len(x) for x in utterances], device=self.device)
        with torch.inference_mode(), scope(conditions, collect=False):
            return self.model.encode_features(features, lengths)

    @torch.inference_mode()
    def encode_long(self, data: NDArray, conditions: Mapping[str, Tensor], batch_size: int) -> tuple[Tensor, Tensor]:
        """Encode samples (L,) of any length, `batch_size` windows at a time, without the frames of the prompt.

        Raises:
            ModelError: A window is not a whole number of frames, or has no room between the context at both ends.
        """
        frame, context, chunk = self._sizes()
        outputs = []
        for windows in batched(_windows(data, context * frame, chunk * frame), batch_size):
            features = [self.features(window) for window in windows]
            ids = {name: index.expand(len(features)) for name, index in conditions.items()}
            first = self.prompt_frames + context
            outputs.append(self.encode(features, ids)[0][:, first : first + chunk])
        output = torch.cat(outputs).flatten(0, 1)[: round(len(data) / frame)].unsqueeze(0)
        return output, torch.tensor([output.size(1)], device=self.device)

    def _sizes(self) -> tuple[int, int, int]:
        """Samples of a frame, frames of context at both ends of a window, and frames between."""
        prompt, todo = self.model.prompt, "split the recording by --vad energy"
        frame = round(frame_times(self.model, prompt.rate, todo).step * prompt.rate)
        context, frames = round(_CONTEXT_SECONDS * prompt.rate / frame), prompt.samples // frame
        if prompt.samples % frame or frames <= 2 * context:
            reason = f"{prompt.seconds:g} s (speech_length of preprocessor_conf) are no window of whole frames"
            room = f"of {frame / prompt.rate:g} s with {_CONTEXT_SECONDS} s of context at both ends"
            raise ModelError(f"{reason} {room}; {todo}")
        return frame, context, frames - 2 * context


def encoding_of(model: nn.Module, prompt: Prompt | None, device: str) -> Encoding:
    """The encoder of a model; for a model whose encoder reads prompts, a `PromptedEncoding`.

    Args:
        model: A model of any task that is searched with.
        prompt: Its prompts, or None.
        device: Device of the model.

    Raises:
        ModelError: The encoder reads no prompt, or parts of a model with prompts depend on conditions.
        NoBatchedSearchError: The model has parts that are not supported.
    """
    if prompt is not None and (conditions := known_conditions(model).names):
        has = f"parts of the model depend on {' and '.join(conditions)}, with other values than its prompts"
        raise ModelError(f"a model of task {prompt.task} is not possible here: {has}; give one without such parts")
    if isinstance(prompt, EncoderPrompt):
        return PromptedEncoding(PromptedModel(model, prompt), device)
    return Encoding(model, device)


def _windows(samples: NDArray, context: int, chunk: int) -> Iterator[NDArray]:
    """Windows of `chunk` samples with `context` at both ends, zeros beyond the recording; as many as ESPnet makes."""
    padded, length = np.pad(samples, context), chunk + 2 * context
    for start in range(0, len(padded), chunk):
        window = padded[start : start + length]
        yield np.pad(window, (0, length - len(window)))
        if len(window) < length:
            return
