"""CTC over the bytes of a text, beside a decoder of Whisper's tokens.

Whisper has 51,865 tokens, most of which an hour of speech never shows, but its tokens are sequences of bytes. CTC over
257 labels, blank and each byte of UTF-8, learns from minutes of speech in any script, and gives any token a
probability: that of its bytes.
"""

from collections.abc import Sequence
from itertools import chain

import torch
from espnet2.asr.ctc import CTC
from torch import Tensor

from espnet_diverse.errors import ConfigError

_PLAIN = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = tuple(byte for byte in range(256) if byte not in _PLAIN)
BYTES = {chr(byte): byte for byte in _PLAIN} | {chr(256 + place): byte for place, byte in enumerate(_OTHERS)}
"""Byte of each character of a byte-level tokenizer, which writes those that cannot be printed as U+0100 and above."""


class ByteCTC(CTC):
    """ESPnet's CTC with a label for blank, 0, and for each byte, 1 to 256.

    Args:
        ctc: CTC of ESPnet, whose options and input width are taken.
        tokens: All tokens of a byte-level tokenizer; `<blank>` first. Those within `<` and `>`, such as `<|de|>`, have
            no bytes.

    Attributes:
        token_of_label: Index of the token of each label alone (257,), 1 where no token is that byte.

    Raises:
        ConfigError: The tokens are not those of a byte-level tokenizer.
    """

    spellings: Tensor
    starts: Tensor
    token_of_label: Tensor

    def __init__(self, ctc: CTC, tokens: Sequence[str]):
        super().__init__(257, ctc.ctc_lo.in_features, ctc.dropout_rate, reduce=ctc.reduce)
        self.ctc_type, self.ctc_loss = ctc.ctc_type, ctc.ctc_loss
        if unknown := next((token for token in tokens[1:] if not BYTES.keys() >= set(token)), None):
            needed = "ctc_labels=bytes needs the tokens of a byte-level tokenizer, such as Whisper's"
            raise ConfigError(f"{needed}, and {unknown!r} is none of them; set model_conf.ctc_labels=tokens")
        special = [len(token) > 2 and token[0] == "<" and token[-1] == ">" for token in tokens]
        spelled = [[] if no else [BYTES[x] + 1 for x in token] for token, no in zip(tokens, special, strict=True)]
        alone = {labels[0]: index for index, labels in enumerate(spelled) if len(labels) == 1}
        starts = torch.tensor([0, *map(len, spelled)]).cumsum(0)
        token_of_label = torch.tensor([0, *(alone.get(label, 1) for label in range(1, 257))])
        self.register_buffer("spellings", torch.tensor([*chain(*spelled), 0], dtype=torch.short), persistent=False)
        self.register_buffer("starts", starts, persistent=False)
        self.register_buffer("token_of_label", token_of_label, persistent=False)

    def spelled(self, tokens: Tensor, most: int | None = None) -> tuple[Tensor, Tensor]:
        """Labels of the bytes of tokens (...), padded with 0: (..., L), at least one; and their numbers (...).

        Args:
            tokens: Indices of tokens.
            most: L, at least the labels of each token; None reads it from the tokens, for which the host waits.
        """
        first = self.starts[tokens]
        counts = self.starts[tokens + 1] - first
        place = torch.arange(most or max(1, int(counts.max())), device=tokens.device)
        valid = place < counts.unsqueeze(-1)
        labels = self.spellings[torch.where(valid, first.unsqueeze(-1) + place, -1)]
        return labels.long(), counts

    def forward(self, hs_pad: Tensor, hlens: Tensor, ys_pad: Tensor, ys_lens: Tensor) -> Tensor:
        """Loss of hs_pad (B, T, M), hlens (B,), for tokens ys_pad (B, N), ys_lens (B,)."""
        valid = torch.arange(ys_pad.size(1), device=ys_pad.device) < ys_lens.unsqueeze(1)
        labels, counts = self.spelled(ys_pad.where(valid, 0))  # <blank> has no bytes
        labels = labels.flatten(1)
        order = (labels == 0).byte().argsort(dim=1, stable=True)  # without gaps between the tokens
        return super().forward(hs_pad, hlens, labels.gather(1, order), counts.sum(1))

    def argmax(self, hs_pad: Tensor) -> Tensor:
        """Token of the most probable byte of each frame (B, T)."""
        return self.token_of_label[super().argmax(hs_pad)]
