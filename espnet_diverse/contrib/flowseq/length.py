"""The number of target tokens p(T | x): a classifier of its difference from the number of source frames.

Ma et al. 2019, "FlowSeq", section 3.4. Differences beyond the greatest one count as the greatest one in training.
"""

import torch
from torch import Tensor, nn

from espnet_diverse.contrib.flowseq.transformer import Source
from espnet_diverse.functional.masks import masked_mean


class LengthPredictor(nn.Module):
    """A linear classifier of the mean of the encoder's output.

    Args:
        width: Model width M.
        most: Greatest difference D; the classes are -D to D.
    """

    def __init__(self, width: int, most: int):
        super().__init__()
        self.most, self.output = most, nn.Linear(width, 2 * most + 1)

    def log_prob(self, source: Source, lengths: Tensor) -> Tensor:
        """Return log p(T | x) of lengths T (B,) -> (B,)."""
        difference = (lengths - source.valid.sum(1)).clamp(-self.most, self.most)
        return self._log_probs(source).gather(1, (difference + self.most).unsqueeze(1)).squeeze(1)

    def best(self, source: Source, number: int, least: Tensor, greatest: Tensor) -> tuple[Tensor, Tensor]:
        """Return the most probable lengths.

        Args:
            source: The source of B sentences.
            number: Number of lengths W.
            least: Minimum of a length, (B,); no length is less than 1.
            greatest: Maximum of a length, (B,).

        Returns:
            Lengths and their log probabilities, (B, W') each, W' the lesser of W and 2 D + 1, most probable first. A
            log probability of -inf stands for a length that is not within the limits, which is then given as 1.
        """
        differences = torch.arange(-self.most, self.most + 1, device=least.device)
        lengths = source.valid.sum(1, keepdim=True) + differences
        outside = (lengths < least.clamp(min=1).unsqueeze(1)) | (lengths > greatest.unsqueeze(1))
        log_probs = self._log_probs(source).masked_fill(outside, -torch.inf)
        values, index = log_probs.topk(min(number, len(differences)))
        return lengths.gather(1, index).masked_fill(values == -torch.inf, 1), values

    def _log_probs(self, source: Source) -> Tensor:
        return self.output(masked_mean(source.output, source.valid.unsqueeze(-1), dim=1)).log_softmax(-1)
