"""Scores of an n-gram language model in a file of KenLM over the tokens of a model, as in ESPnet.

ESPnet's `NgramFullScorer` gives the log (of base 10) of the probability of each next token. Hypotheses with the same
last tokens have the same scores, which are computed once.
"""

import logging
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from espnet_diverse.errors import ConfigError, ModelError, first_line
from espnet_diverse.untrusted.foreign_config import TRUST

log = logging.getLogger(__name__)

_SUFFIXES = (".arpa", ".arpa.gz", ".bin", ".binary")
_BINARY = b"mmap lm http://kheafield.com/code"
_END = "<|endoftext|>"
"""End of a text of Whisper. That of ESPnet, <sos/eos>, keeps the probability of <unk>, which ESPnet gives it."""
_INSTALL = "pip install 'espnet_diverse[kenlm]'"


def is_ngram(model: Path) -> bool:
    """Return whether a language model is a KenLM file, by its name."""
    return model.name.endswith(_SUFFIXES) and not model.is_dir()


def is_usable(path: Path) -> bool:
    """Return whether the n-gram model of a packed model is used; if not, a warning gives the reason.

    KenLM does not check its binary format or the offsets in it, so a damaged or hostile file can do anything. It is
    used only if the user trusts the model; the text format is parsed.

    Args:
        path: The n-gram model, in the directory that the model was unpacked to.
    """
    try:
        import kenlm  # noqa: F401, only whether it is there
    except ImportError:
        reason = f"because kenlm is not installed: {_INSTALL}"
    else:
        with path.open("rb") as file:
            is_binary = file.read(len(_BINARY)) == _BINARY
        if not is_binary or os.environ.get(TRUST) == "1":
            return True
        reason = f"because kenlm does not check its binary format; set {TRUST}=1 if you trust the model"
    message = "its n-gram model is not used"
    log.warning("%s: %s, %s; scores and texts are as without it", path.parent.parent, message, reason)
    return False


class NgramScorer:
    """Scores of the next token for W hypotheses of each of B utterances.

    Args:
        path: File of KenLM.
        tokens: Tokens of the model that is searched with.

    Attributes:
        espnets: ESPnet's scorer, for ESPnet's search.

    Raises:
        ConfigError: kenlm is not installed.
        ModelError: The file does not exist, or is not a KenLM file.
    """

    def __init__(self, path: Path, tokens: list[str]):
        if not path.is_file():
            raise ModelError(f"{path}: no such n-gram model; give a file of KenLM: {' '.join(_SUFFIXES)}")
        try:
            from espnet_diverse.upstream.ngram import NgramFullScorer
        except ImportError as error:
            raise ConfigError(f"{path}: an n-gram model needs kenlm: {_INSTALL}") from error
        try:
            self.espnets = NgramFullScorer(str(path), tokens)
        except (OSError, RuntimeError) as error:
            reason = first_line(error)
            raise ModelError(f"{path}: is not a model of KenLM ({reason}); make it with lmplz again") from error
        self.espnets.chardict = ["</s>" if token == _END else token for token in self.espnets.chardict]

    def begin(self, source: Tensor, mask: Tensor | None) -> None:
        """Start a new batch with the utterances of `source` (B, T, M), whose content is not used."""
        self._states: list[list[Any]] = [[self.espnets.init_state(None)] for _ in source]
        self._found: dict[Any, Tensor] = {}
        self._first = True

    def score(self, tokens: Tensor) -> Tensor:
        """Scores (B, W, V) of the next token, given the last token of each hypothesis (B, W)."""
        rows = []
        for row, (states, last) in enumerate(zip(self._states, tokens.tolist(), strict=True)):
            self._states[row] = [self._next(state, token) for state, token in zip(states, last, strict=True)]
            rows.append(torch.stack([self._scores(state) for state in self._states[row]]))
        self._first = False
        return torch.stack(rows).to(tokens.device)

    def extend(self, parents: Tensor) -> None:
        """Replace the hypotheses by extensions of the hypotheses `parents` (B, W)."""
        rows = zip(self._states, parents.tolist(), strict=True)
        self._states = [[states[parent] for parent in chosen] for states, chosen in rows]

    def keep(self, rows: Tensor) -> None:
        """Keep only the utterances `rows`."""
        self._states = [self._states[row] for row in rows.tolist()]

    def _next(self, state: Any, token: int) -> Any:
        following = self.espnets.init_state(None)
        word = "<s>" if self._first else self.espnets.chardict[token]
        self.espnets.lm.BaseScore(state, word, following)
        return following

    def _scores(self, state: Any) -> Tensor:
        if state not in self._found:
            lm, spare = self.espnets.lm, self.espnets.tmpkenlmstate
            self._found[state] = torch.tensor([lm.BaseScore(state, word, spare) for word in self.espnets.chardict])
        return self._found[state]
