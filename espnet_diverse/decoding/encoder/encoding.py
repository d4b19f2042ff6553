"""Encoder outputs of a batch of utterances, each computed as if it were alone, in one batch where that is possible.

In ESPnet's own batches an utterance gets other results than alone: the last frames of a shorter utterance see padding
in the short-time Fourier transform and in the subsampling convolutions, which also keep frames of padding. Here
features and subsampling are computed for each utterance alone, which costs no more, and the layers of a transformer
then run on a padded batch under an exact mask. Encoders that convolve in their layers encode one utterance at a time.
The outputs of an utterance in a batch and alone agree up to the rounding of float32, not always to the last digit:
kernels choose the order of a sum by the shapes of their operands, and each CPU has its own kernels.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from espnet2.asr.encoder.contextual_block_conformer_encoder import ContextualBlockConformerEncoder
from espnet2.asr.encoder.contextual_block_transformer_encoder import ContextualBlockTransformerEncoder
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.decoding.encoder.long_audio import batch_of_one, features_in_parts, is_long
from espnet_diverse.decoding.encoder.quiet import quiet
from espnet_diverse.errors import ModelError, NoBatchedSearchError
from espnet_diverse.functional.copies import copied
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.frontends.speech_frontend import check_samples
from espnet_diverse.scope import scope
from espnet_diverse.upstream.layers import (
    Conv2dSubsamplingWOPosEnc,
    LegacyRelPositionalEncoding,
    TooShortUttError,
    check_short_utt,
)

_BLOCKWISE = (ContextualBlockTransformerEncoder, ContextualBlockConformerEncoder)
_UNKNOWN_PARTS = ("postencoder", "hier_encoder", "md_encoder")


class Encoded(NamedTuple):
    """A batch after the encoder.

    Attributes:
        output: Encoder output (B, T, M).
        lengths: Number of frames of each utterance (B,).
        conditions: Condition indices (B,) by condition, or (1,) where all utterances have the same.
    """

    output: Tensor
    lengths: Tensor
    conditions: Mapping[str, Tensor]


class Encoding:
    """The encoder of one model.

    Args:
        model: ESPnet's model of speech recognition, speech translation or text translation, or ours.
        device: Device of the model.

    Raises:
        NoBatchedSearchError: The model has parts that are not supported.
    """

    #: Number of output frames before the frames of the input.
    prompt_frames = 0
    #: Whether an input of any length is encoded in windows, from its samples.
    reads_windows = False

    def __init__(self, model: nn.Module, device: str):
        check_parts(vars(model) | model._modules)
        self.model, self.encoder, self.device = model, model.encoder, device
        # As ESPnet: the predictions of CTC enter the layers, or decide which frames are left out.
        conditioned = any(getattr(self.encoder, name, False) for name in ("interctc_use_conditioning", "ctc_trim"))
        self._conditioning = {"ctc": model.ctc} if conditioned else {}
        self.together = isinstance(self.encoder, TransformerEncoder) and not self.encoder.interctc_layer_idx

    @torch.inference_mode()
    def features(self, data: NDArray) -> NDArray:
        """Compute features (T, F) of one utterance.

        Args:
            data: Samples (L,) float32, token indices of a text to translate (L,) int64, or features (T, F) float32 of a
                model without a frontend.

        Raises:
            TooShortUttError: There are too few samples for the frontend, or too few frames for the encoder.
        """
        check_samples(getattr(self.model, "frontend", None), len(data))
        if is_long(self.model, data):
            return features_in_parts(self.model, data, self.device)
        data, lengths = batch_of_one(copied(data, self.device))
        features, lengths = self.model._extract_feats(data, lengths)
        for part in (getattr(self.model, "normalize", None), self.model.preencoder):
            if part is not None:
                features, lengths = part(features, lengths)
        count = features.size(1)
        short, limit = _check_frames(getattr(self.encoder, "embed", None), count)
        if short:
            raise TooShortUttError(f"{count} frames are too short; the encoder needs {limit}", count, limit)
        return features[0].cpu().numpy()

    @torch.inference_mode()
    def encode(self, utterances: Sequence[NDArray], conditions: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Encode features (T, F) of each of B utterances.

        Args:
            utterances: Features of each utterance.
            conditions: Condition indices (B,) by condition.

        Returns:
            Encoder output (B, T', M) with padding, and the number of frames of each utterance (B,).
        """
        # Copies, which PyTorch aligns: the alignment of NumPy's memory varies, and some kernels sum by it.
        features = (copied(x, self.device) for x in utterances)
        if not self.together:
            outputs = [self._alone(x, conditions, row) for row, x in enumerate(features)]
            return _padded(outputs), self._lengths(outputs)
        embedded = [self._embed(x.unsqueeze(0))[0] for x in features]
        x, lengths = _padded(embedded), self._lengths(embedded)
        frames = x.size(1)
        mask = lengths_to_mask(lengths, x.size(1)).unsqueeze(1) if len(embedded) > 1 else None
        del embedded
        with scope(conditions, collect=False):
            for layer in self.encoder.encoders:
                x, mask = layer(x, mask)
        lengths = lengths + (x.size(1) - frames)  # with the rows that an encoder hands over
        return self.encoder.after_norm(x) if self.encoder.normalize_before else x, lengths

    def encode_long(self, data: NDArray, conditions: Mapping[str, Tensor], batch_size: int) -> tuple[Tensor, Tensor]:
        """Encode one input of any length.

        Args:
            data: Features (T, F); samples (L,) where the encoding `reads_windows`.
            conditions: Condition indices (1,) by condition.
            batch_size: Number of parts that may be encoded together.

        Returns:
            Encoder output (1, T', M) and its number of frames (1,).
        """
        return self.encode([data], conditions)

    def _alone(self, features: Tensor, conditions: Mapping[str, Tensor], row: int) -> Tensor:
        ids = {condition: ids[row : row + 1] for condition, ids in conditions.items()}
        with scope(ids, collect=False), quiet():
            output = self.encoder(*batch_of_one(features), **self._conditioning)[0]
        return (output[0] if isinstance(output, tuple) else output)[0]  # without the outputs of intermediate layers

    def _embed(self, x: Tensor) -> Tensor:
        embed = self.encoder.embed
        if embed is None:
            return x
        return embed(x) if isinstance(embed, nn.Sequential) else embed(x, None)[0]

    @property
    def is_linear(self) -> bool:
        """Whether time and memory of the encoder grow linearly with the length of its input."""
        if getattr(self.encoder, "by_segments", False) or isinstance(self.encoder, _BLOCKWISE):
            return True
        attentions = [module for module in self.encoder.modules() if isinstance(module, MultiHeadAttention)]
        if any(isinstance(module, LegacyRelPositionalEncoding) for module in self.encoder.modules()):
            return False  # its shift does not depend on distance alone: attention makes a matrix of all pairs
        return bool(attentions) and all(attention.linear for attention in attentions)

    def _lengths(self, outputs: Sequence[Tensor]) -> Tensor:
        return copied([len(x) for x in outputs], self.device)


def check_parts(parts: Mapping) -> None:
    """Refuse a model with a part after its encoder.

    Args:
        parts: The parts of a model, or the configuration that it is built from, by name.

    Raises:
        NoBatchedSearchError: The model has a part after its encoder.
    """
    for part in _UNKNOWN_PARTS:
        if parts.get(part) is not None:
            raise NoBatchedSearchError(f"a model with a {part} has no batched search; use decode --search espnet")


def check_finite(output: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return encoder output (B, T, M) and the number of frames of each utterance (B,) as given.

    Raises:
        ModelError: A frame before the end of an utterance is not finite.
    """
    finite = output.isfinite().all(-1) | ~lengths_to_mask(lengths, output.size(1))
    if not bool(finite.all()):  # or the texts would be empty, as for silence
        reason = "the weights are damaged, or training diverged"
        raise ModelError(f"the encoder's output is not finite: {reason}; use another checkpoint")
    return output, lengths


def _check_frames(embed: nn.Module | None, frames: int) -> tuple[bool, int]:
    """ESPnet's `check_short_utt`, and the same for the subsampling of contextual block encoders, which it ignores."""
    if not isinstance(embed, Conv2dSubsamplingWOPosEnc):
        return check_short_utt(embed, frames)
    least = 1
    for kernel, stride in zip(reversed(embed.kernels), reversed(embed.strides), strict=True):
        least = (least - 1) * stride + kernel
    return frames < least, least


def _padded(x: Sequence[Tensor]) -> Tensor:
    """Sequences (T, M) as one batch; a single sequence is not copied, because it may be long."""
    return x[0].unsqueeze(0) if len(x) == 1 else pad_sequence(x, batch_first=True)
