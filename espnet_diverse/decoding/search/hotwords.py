"""Hotwords: phrases whose tokens get a bonus in the beam search, so that rare names are found.

The phrases form a prefix tree of tokens with failure links (Aho and Corasick 1975, "Efficient string matching"). A
hypothesis is at the node of the longest beginning of a phrase that it ends with. Every token of a phrase adds the
bonus. The bonus of an unfinished phrase is taken back with the first token that leaves it, at <eos>, and where the
greatest length ends a text; a complete phrase keeps its bonus. The score of a text is thus its score without hotwords
plus the bonus of each token of a complete phrase. The search (`beam_search.py`) decides how much of the bonus of an
unfinished phrase counts while the beam is chosen. The states of all hypotheses are looked up in tables: no step loops
over hypotheses or phrases.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from espnet_diverse.data.characters import clean_text
from espnet_diverse.data.checks.faults import Fault, refuse
from espnet_diverse.data.tables import scan_lines
from espnet_diverse.decoding.token_text import UNKNOWN, TokenText
from espnet_diverse.errors import ConfigError


class HotwordScorer:
    """Bonus of the next token for W hypotheses of each of B utterances, in units of `hotword_weight`.

    Args:
        phrases: Token indices of each phrase, at least one.
        vocabulary: Number of tokens V.
        device: Device of the search.

    Attributes:
        greatest: Most that one token can gain: more than 1 where phrases overlap.
    """

    def __init__(self, phrases: Sequence[Sequence[int]], vocabulary: int, device: str = "cpu"):
        tree = _Tree(phrases)
        self.vocabulary = vocabulary
        moves = [tree.moves(node) for node in range(len(tree.children))]
        width = max(map(len, moves))
        spare = (vocabulary, 0, 0.0)  # a token that does not exist fills rows of fewer moves
        rows = [[*((token, *to) for token, to in row.items()), *[spare] * (width - len(row))] for row in moves]
        table = torch.tensor(rows, dtype=torch.float64, device=device).unbind(-1)
        self._tokens, self._targets, self._gains = table[0].long(), table[1].long(), table[2].float()
        self.greatest = float(self._gains.max())
        self._pending = torch.tensor(tree.pending, device=device)

    def begin(self, source: Tensor, mask: Tensor | None) -> None:
        """Start a new batch with the utterances of `source` (B, T, M), whose content is not used."""
        self._states = torch.zeros(len(source), 1, dtype=torch.long, device=source.device)

    def score(self, tokens: Tensor) -> Tensor:
        """Bonus (B, W, V) of the next token, given the last token of each hypothesis (B, W)."""
        self._states = self.move(self._states, tokens)
        return self.gains(self._states)

    def move(self, states: Tensor, tokens: Tensor) -> Tensor:
        """The states (B, W) after one more token (B, W) each; 0 is the state of an empty text."""
        found = self._tokens[states] == tokens.unsqueeze(-1)  # (B, W, moves)
        return (self._targets[states] * found).sum(-1)  # the root where nothing is found

    def gains(self, states: Tensor) -> Tensor:
        """Bonus (B, W, V) of the next token in the states (B, W)."""
        return self._by_token(states, -self._pending[states], self._gains[states])

    def pending(self, states: Tensor) -> Tensor:
        """The bonus of an unfinished phrase in the states (B, W), which the end of a text takes back."""
        return self._pending[states]

    def unfinished(self) -> Tensor:
        """The bonus of an unfinished phrase after each next token, (B, W, V), for the tokens of the last `score`."""
        after = self._pending[self._targets[self._states]]
        return self._by_token(self._states, after.new_zeros(self._states.shape), after)

    def extend(self, parents: Tensor) -> None:
        """Replace the hypotheses by extensions of the hypotheses `parents` (B, W)."""
        self._states = self._states.gather(1, parents)

    def keep(self, rows: Tensor) -> None:
        """Keep only the utterances `rows`."""
        self._states = self._states[rows]

    def _by_token(self, states: Tensor, others: Tensor, moves: Tensor) -> Tensor:
        """(B, W, V) from a value for each of the moves (B, W, moves), and one for all other tokens (B, W)."""
        values = others.unsqueeze(-1).repeat(1, 1, self.vocabulary + 1)
        return values.scatter_(2, self._tokens[states], moves)[..., : self.vocabulary]


class _Tree:
    """Prefix tree with failure links; node 0 is the root.

    Attributes:
        children: Child of each node by token.
        pending: Number of tokens of each node since the last complete phrase on its path, which a mismatch takes back.
    """

    def __init__(self, phrases: Sequence[Sequence[int]]):
        self.children: list[dict[int, int]] = [{}]
        self.depth, ends = [0], set()
        for phrase in phrases:
            node = 0
            for token in phrase:
                if token not in self.children[node]:
                    self.children[node][token] = len(self.children)
                    self.children.append({})
                    self.depth.append(self.depth[node] + 1)
                node = self.children[node][token]
            ends.add(node)
        self._failure, self.pending = self._link(ends)

    def moves(self, node: int) -> dict[int, tuple[int, float]]:
        """Tokens that do not lead to the root: the node that each leads to, and what it gains."""
        found = {token: (child, 1.0) for token, child in self.children[node].items()}
        other = node
        while other:
            other = self._failure[other]
            for token, child in self.children[other].items():
                found.setdefault(token, (child, self.depth[child] - self.pending[node]))
        return found

    def _link(self, ends: set[int]) -> tuple[list[int], list[float]]:
        """The node of the longest proper ending of each node's path that begins a phrase, and `pending`."""
        failure, complete, pending = [0] * len(self.children), [0] * len(self.children), [0.0] * len(self.children)
        queue = [0]
        for node in queue:  # grows while it is read: breadth first
            for token, child in self.children[node].items():
                other = failure[node]
                while node and other and token not in self.children[other]:
                    other = failure[other]
                failure[child] = self.children[other].get(token, 0) if node else 0
                within = complete[failure[child]]  # length of the longest phrase that the path ends with
                complete[child] = self.depth[child] if child in ends else within
                pending[child] = 0.0 if child in ends else max(0.0, pending[node] + 1 - within)
                queue.append(child)
        return failure, pending


Hotwords = str | Path | Sequence[str]
"""The path of a file with a phrase a line, or phrases."""


def split_hotwords(text: str) -> tuple[str, ...]:
    """Split a line of hotwords that a user has written, at commas, semicolons and line ends."""
    return tuple(filter(None, map(str.strip, re.split("[,;\n]", text))))


def load_hotwords(hotwords: Hotwords, search: str, tokens: TokenText, device: str) -> HotwordScorer:
    """Read hotwords for a search with these tokens; arguments and errors are also those of `read_hotwords`.

    Raises:
        ConfigError: The search is not the batched one.
    """
    if search != "batched":
        raise ConfigError(f"search={search} has no hotwords; set search=batched, or leave them out")
    return HotwordScorer(read_hotwords(hotwords, tokens.encode, UNKNOWN), len(tokens), device)


def read_hotwords(hotwords: Hotwords, encode: Callable[[str], list[int]], unknown: int) -> list[list[int]]:
    """Read phrases as token indices; empty ones are left out.

    Args:
        hotwords: The file, or the phrases.
        encode: Returns the token indices of a text.
        unknown: Index of <unk>.

    Raises:
        DataError: The file cannot be read, has no phrase, or a phrase has characters that the model does not know.
    """
    if isinstance(hotwords, str | Path):
        path, (lines, faults) = str(hotwords), scan_lines(Path(hotwords))
    else:
        path, lines, faults = "hotwords", [clean_text(phrase)[0] for phrase in hotwords], []
    phrases = []
    for number, line in enumerate(lines, start=1):
        tokens = encode(line) if line else []
        if unknown in tokens:
            faults.append(Fault(path, number, f"the model's vocabulary lacks a character of {line!r}; change it"))
        elif tokens:
            phrases.append(tokens)
    if not phrases and not faults:
        faults.append(Fault(path, None, "has no phrase; write one a line"))
    refuse(faults)
    return phrases
