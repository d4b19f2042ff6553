"""Hotwords in ESPnet's search of a transducer, passed to it as a language model.

ESPnet adds the score of a language model whenever a hypothesis gets a token. The scorer here is passed instead of that
model: its score is the bonus of the token (`decoding/search/hotwords.py`) plus the weighted score of the language
model, if there is one. In ESPnet's usual search a frame may write any number of tokens, until more tokens cost more
than a blank; with a bonus this may never happen. With hotwords its time-synchronous search (Saon et al. 2020,
"Alignment-length synchronous decoding for RNN transducer", section 2) is used, with at most 2 tokens a frame.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.decoding.search.hotwords import HotwordScorer

SEARCH = {"search_type": "tsd", "max_sym_exp": 3}
"""Arguments of ESPnet's search: time-synchronous; the last of the 3 steps of a frame is a blank."""

_Text = tuple[int, ...]


class _Known(NamedTuple):
    scores: NDArray
    node: Tensor
    lm_state: Any


class TransducerHotwords:
    """The language model of ESPnet's search during one utterance. The state of a hypothesis is its text so far.

    Args:
        hotwords: Scorer of the phrases.
        weight: Score added for each token of a phrase.
        lm: Language model of ESPnet over the same tokens, or None.
        lm_weight: Weight of its score.
        sos: Token that texts of the language model begin with.
        device: Device of the search.
    """

    def __init__(
        self, hotwords: HotwordScorer, weight: float, lm: nn.Module | None, lm_weight: float, sos: int, device: str
    ):
        self.hotwords, self.weight, self.device = hotwords, weight, device
        self.lm, self.lm_weight, self.sos = lm, lm_weight, sos
        self._known: dict[_Text, _Known] = {}

    def zero_state(self) -> None:
        """The state of a hypothesis before its first token, which is a blank."""

    def batch_score(self, tokens: Tensor, states: Sequence[_Text | None], source: None) -> tuple[NDArray, list[_Text]]:
        """Scores (B, V) of the next token and new states, given the last tokens (B, 1) and the states before them."""
        rows = zip(tokens.squeeze(-1).tolist(), states, strict=True)
        texts = [() if text is None else (*text, token) for token, text in rows]
        return np.stack([self._score(text).scores for text in texts]), texts

    def unfinished(self, text: Sequence[int]) -> float:
        """The bonus of a phrase that a text ends within, which a complete text does not keep."""
        return self.weight * float(self.hotwords.pending(self._node(tuple(text))))

    def _score(self, text: _Text) -> _Known:
        if text not in self._known:  # ESPnet asks in every frame
            node, state = self._node(text), None
            scores = self.weight * self.hotwords.gains(node)[0, 0].double()
            if self.lm is not None:
                before = self._known[text[:-1]].lm_state if text else None
                prefix = torch.tensor([self.sos, *text], device=self.device)
                log_probs, state = self.lm.score(prefix, before, None)
                scores = scores + self.lm_weight * log_probs
            self._known[text] = _Known(scores.cpu().numpy(), node, state)
        return self._known[text]

    def _node(self, text: _Text) -> Tensor:
        """The state (1, 1) of the scorer of phrases after a text."""
        if text in self._known:
            return self._known[text].node
        if not text:
            return torch.zeros(1, 1, dtype=torch.long, device=self.device)
        return self.hotwords.move(self._node(text[:-1]), torch.tensor([[text[-1]]], device=self.device))
