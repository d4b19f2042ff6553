"""Reading of features of the frozen part of a speech model, which were computed once, instead of samples.

`stats` computes these features once, with the frontend or with the encoder and all before it, and training reads them:
its epochs cost what the trained part costs. The frozen part stays in the model, which is saved and used as any other.
"""

from typing import Any

from torch import Tensor

PARTS = {
    "encoder": ("frontend", "normalize", "preencoder", "encoder", "postencoder"),
    "frontend": ("frontend",),
}
"""Parts that may be frozen, and the modules of each; the longer part comes first."""


class ReadsKeptFeatures:
    """Mixin that precedes a model of ESPnet in the bases.

    Attributes:
        kept_part: The key of `PARTS` whose features are given as speech (B, T, M); None for samples.
        keeps: Keys of `PARTS` that the model can leave out.
    """

    kept_part: str | None = None
    keeps: tuple[str, ...] = ("frontend",)

    def encode(self, speech: Tensor, speech_lengths: Tensor, *args, **options) -> Any:
        """ESPnet's `encode`; features of the encoder are returned as they are."""
        if self.kept_part == "encoder":
            return speech, speech_lengths
        return super().encode(speech, speech_lengths, *args, **options)  # type: ignore[misc]

    def _extract_feats(self, speech: Tensor, speech_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """ESPnet's method; features of the frontend are returned as they are."""
        if self.kept_part == "frontend":
            return speech, speech_lengths
        return super()._extract_feats(speech, speech_lengths)  # type: ignore[misc]
