"""Greedy CTC decoding of a batch of utterances.

Graves et al. 2006, "Connectionist Temporal Classification", section 3.2: the most probable label of every frame, with
repeated labels merged and blanks taken out. The score is the log probability of that path.
"""

import torch
from torch import Tensor, nn

from espnet_diverse.attention.parts import slices
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam import Hypothesis
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.whisper.byte_ctc import ByteCTC


class GreedySearch:
    """Search by the CTC module of a model alone; called as `BeamSearch` is.

    Args:
        ctc: ESPnet's CTC module.
    """

    def __init__(self, ctc: nn.Module):
        self.ctc = ctc

    @torch.inference_mode()
    def __call__(self, source: Tensor, lengths: Tensor, options: SearchOptions) -> list[list[Hypothesis]]:
        """One hypothesis for each utterance.

        Args:
            source: Encoder output (B, T, M).
            lengths: Number of frames of each utterance (B,).
            options: Search options; none of them affects greedy search.
        """
        maxima = [self.ctc.log_softmax(source[:, part]).max(-1) for part in slices(source.size(1))]
        best, labels = (torch.cat(parts, dim=1) for parts in zip(*maxima, strict=True))
        valid = lengths_to_mask(lengths, source.size(1))
        begins = _begins(labels, valid)
        if isinstance(self.ctc, ByteCTC):
            labels = self.ctc.token_of_label[labels]
        scores = best.double().masked_fill(~valid, 0.0).sum(1).tolist()
        rows = labels.masked_fill(~begins, 0).tolist()  # of which 0, the blank, begins no token
        return [[Hypothesis([*filter(None, row)], score)] for row, score in zip(rows, scores, strict=True)]


def heard_tokens(log_probs: Tensor, lengths: Tensor) -> Tensor:
    """Number of tokens of the greedy text of each utterance (B,).

    Args:
        log_probs: CTC log probabilities (B, T, V).
        lengths: Number of frames of each utterance (B,).
    """
    return _begins(log_probs.argmax(-1), lengths_to_mask(lengths, log_probs.size(1))).sum(1)


def _begins(labels: Tensor, valid: Tensor) -> Tensor:
    """Return whether a token begins in a frame (B, T): its label differs from the last one, and is no blank."""
    new = labels != torch.nn.functional.pad(labels[:, :-1], (1, 0))  # the first unless it is blank, index 0
    return valid & new & (labels != 0)
