"""The loss of ESPnet's transducers from torchaudio, where the package that ESPnet asks for is not installed.

ESPnet imports `warprnnt_pytorch` to build a transducer, also for inference, which uses no loss. That package is in no
registry and is compiled by hand; torchaudio computes the same loss (Graves 2012, "Sequence transduction with recurrent
neural networks").
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from types import ModuleType

import torchaudio
from torch import Tensor, nn

_PACKAGE = "warprnnt_pytorch"
_LOCK = RLock()


class RNNTLoss(nn.Module):
    """Transducer loss, the mean over the utterances of a batch.

    Args:
        blank: Index of the blank.
        fastemit_lambda: Weight of FastEmit, which is 0 in ESPnet; torchaudio has nothing else.
    """

    def __init__(self, blank: int = 0, fastemit_lambda: float = 0.0):
        super().__init__()
        if fastemit_lambda:
            raise NotImplementedError(f"fastemit_lambda {fastemit_lambda} needs {_PACKAGE}")
        self.blank = blank

    def forward(self, logits: Tensor, labels: Tensor, frames: Tensor, lengths: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            logits: Outputs of the joint network (B, T, U + 1, V).
            labels: Indices (B, U) int32 without blank.
            frames: Number of frames of each utterance (B,) int32.
            lengths: Number of labels of each utterance (B,) int32.

        Returns:
            The loss ().
        """
        return torchaudio.functional.rnnt_loss(
            logits.float(), labels.contiguous(), frames, lengths, blank=self.blank, reduction="mean"
        )


@contextmanager
def transducer_loss() -> Iterator[None]:
    """Let ESPnet build transducers while the block runs, with this loss where `warprnnt_pytorch` is not installed."""
    with _LOCK:
        if importlib.util.find_spec(_PACKAGE) is not None:
            yield
            return
        module = ModuleType(_PACKAGE)
        module.RNNTLoss = RNNTLoss  # type: ignore[attr-defined]
        sys.modules[_PACKAGE] = module
        try:
            yield
        finally:
            del sys.modules[_PACKAGE]
