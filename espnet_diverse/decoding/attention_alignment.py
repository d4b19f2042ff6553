"""Frames of the tokens of a text from the cross-attention of a decoder, by dynamic time warping.

The method of openai-whisper for times of words. Some heads of the cross-attention look at the frames of the token that
is predicted next. With their weights A (H, n, T) for n tokens, from the prompt to the end of the text, and T frames,

    Z = (A - mean of A over tokens) / standard deviation over tokens
    W = mean over heads of the median of Z over 7 frames

the path through W (n, T) that has the greatest sum, with steps to the next token, the next frame or both, gives each
token its frames. It begins with the last token of the prompt, which takes the frames before the speech, as the end of
the text takes those after it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torchaudio.functional import TokenSpan

from espnet_diverse.decoding.encoder.encoding import Encoded
from espnet_diverse.decoding.teacher_forcing import token_log_probs

_WIDTH = 7  # frames of the median


def aligns(model: Any) -> bool:
    """Return whether a model has a decoder with heads that look at the frames of each token, and can show them."""
    decoder = getattr(model, "decoder", None)
    return hasattr(decoder, "alignment_heads") and decoder.decoders[0].src_attn.core.supports.explicit_weights


@torch.inference_mode()
def align(model: Any, encoded: Encoded, texts: Sequence[Sequence[int]]) -> list[list[TokenSpan]]:
    """Find the frames of the tokens of B texts.

    Args:
        model: A model that `aligns`.
        encoded: Output of its encoder for B utterances.
        texts: Token indices of each text.

    Returns:
        For each token its first frame `start`, the frame `end` after its last, and as `score` its probability by the
        decoder.
    """
    log_probs, targets = token_log_probs(model, encoded, texts, keep_attention=True)
    probabilities = log_probs.gather(1, targets.unsqueeze(1)).squeeze(1).exp().split([len(text) + 1 for text in texts])
    weights = model.decoder.alignment_weights()
    prompt = weights.size(2) - max(map(len, texts)) - 1
    spans = []
    for number, (text, frames) in enumerate(zip(texts, encoded.lengths.tolist(), strict=True)):
        text_weights = weights[number, :, : prompt + len(text) + 1, :frames]
        first = _apart(warped(evidence(text_weights)[prompt - 1 :])[1:], frames)
        rows = zip(text, first, first[1:], probabilities[number].tolist(), strict=False)
        spans.append([TokenSpan(token, start, max(end, start + 1), score) for token, start, end, score in rows])
    return spans


def _apart(first: Sequence[int], frames: int) -> list[int]:
    """First frames of n tokens and of the end, with at least one frame for each token if there are as many."""
    steps = np.arange(len(first))
    apart = np.maximum.accumulate(np.array(first) - steps) + steps
    return np.minimum(apart, frames - steps[::-1]).clip(0).tolist()


def evidence(weights: Tensor) -> NDArray[np.float64]:
    """Compute W: attention weights A (H, n, T) -> (n, T)."""
    frames = weights.size(2)
    deviation, mean = torch.std_mean(weights.double(), dim=1, keepdim=True, correction=0)
    normal = (weights - mean) / deviation.clamp(min=1e-12)
    half = _WIDTH // 2
    if frames > half:
        normal = F.pad(normal, (half, half), mode="reflect").unfold(-1, _WIDTH, 1).median(-1).values
    return normal.mean(0).cpu().numpy()


def warped(evidence: NDArray[np.float64]) -> list[int]:
    """Compute the first frame of each token on the best path through W (n, T).

    The best sum up to token i and frame j is R_ij = max over k <= j of (max(R_i-1,k-1, R_i-1,k) + W_ik + ... + W_ij),
    in which k is the first frame of the token. With sums of W over frames it is one cumulative maximum a token.
    """
    count, frames = evidence.shape
    before, columns = np.full(frames, -np.inf), np.arange(frames)
    before[0] = 0.0
    entered: list[NDArray[np.intp]] = []
    stepped: list[NDArray[np.bool_]] = []
    for row in evidence:
        diagonal = np.concatenate([[-np.inf], before[:-1] if entered else np.full(frames - 1, -np.inf)])
        sums = np.cumsum(row)
        values = np.maximum(before, diagonal) - (sums - row)
        best = np.maximum.accumulate(values)
        entered.append(np.maximum.accumulate(np.where(values == best, columns, 0)))
        stepped.append(diagonal >= before)
        before = best + sums
    column, first = frames - 1, []
    for enter, step in zip(reversed(entered), reversed(stepped), strict=True):
        column = int(enter[column])
        first.append(column)
        column -= int(step[column] and column > 0)
    return first[::-1]
