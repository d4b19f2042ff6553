"""Hotwords: phrases whose tokens get a bonus in the beam search, so that rare names are found.

The phrases form a prefix tree of tokens with failure links (Aho and Corasick 1975, "Efficient string matching"). A
hypothesis is at the node of the longest beginning of a phrase that it ends with. Every token of a phrase adds the
bonus. The bonus of an unfinished phrase is taken back with the first token that leaves it, at <eos>, and where the
greatest length ends a text; a complete phrase keeps its bonus. The score of a text is thus its score without hotwords
plus the bonus of each token of a complete phrase. The search (`beam_search.py`) decides how much of the bonus of an
unfinished phrase counts while the beam is chosen. The states of all hypotheses are looked up in tables: no step loops
over hypotheses or phrases.

Where the bonus of a token exceeds its cost, each repetition of a phrase raises the score, up to the greatest length. If
a text has more tokens in phrases than were spoken, the weight is halved until it has not (`without_repeats`).
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from espnet_diverse.data.characters import clean_text
from espnet_diverse.data.faults import Fault, alike_once, refuse
from espnet_diverse.data.tables import scan_lines
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam import Hypothesis
from espnet_diverse.decoding.token_text import UNKNOWN, TokenText
from espnet_diverse.errors import ConfigError, DataError

log = logging.getLogger(__name__)
_LEAST_WEIGHT = 1.0  # a smaller one, which repeats nothing, is not halved
_WEIGHT = re.compile(r"(.*\S)\s+(:?)(\d+(?:\.\d+)?)")
_SENTENCE_END = re.compile(r"[.!?]+(?:\s|$)|[。！？]+")
_QUOTES = " \t\"'«»“”‘’「」()"
_TERM_WORDS, _TERM_COLUMNS = 4, 40  # of a term, at most; a Chinese or Japanese character has two columns
_FIRST_WIDE = "\u2e80"
_FEW = 4  # phrases that a text may have, whatever CTC hears


class HotwordScorer:
    """Bonus of the next token for W hypotheses of each of B utterances, in units of `hotword_weight`.

    Args:
        phrases: Token indices of each phrase, at least one.
        vocabulary: Number of tokens V.
        device: Device of the search.

    Attributes:
        greatest: The most that one token can gain: more than 1 where phrases overlap.
    """

    def __init__(self, phrases: Sequence[Sequence[int]], vocabulary: int, device: str = "cpu"):
        self._tree, self.vocabulary, self._is_told = (tree := _Tree(phrases)), vocabulary, False
        self._walk = moves = [tree.moves(node) for node in range(len(tree.children))]
        counts = torch.tensor([0, *map(len, moves)], device=device)
        self._begins, self._width = counts.cumsum(0), int(counts.max())
        spare = (vocabulary, 0, 0.0)  # a token that does not exist fills rows of fewer moves
        rows = [(token, *to) for row in moves for token, to in row.items()]
        table = torch.tensor([*rows, spare], dtype=torch.float64, device=device).unbind(-1)
        self._tokens, self._targets, self._gains = table[0].long(), table[1].long(), table[2].float()
        self.greatest = max(1.0, float(self._gains.max()))
        self._pending = torch.tensor(tree.pending, device=device)
        # Where a node has no move for a token, the move from the root holds; nodes do not repeat those moves.
        self._root = torch.zeros(vocabulary + 1, dtype=torch.long, device=device)
        first = torch.tensor(list(tree.children[0].values()), dtype=torch.long, device=device)
        self._root[list(tree.children[0])] = first

    @property
    def tokens(self) -> list[int]:
        """The tokens of all phrases."""
        return sorted({token for moves in self._tree.children for token in moves})

    def begin(self, source: Tensor, mask: Tensor | None) -> None:
        """Start a new batch with the utterances of `source` (B, T, M), whose content is not used."""
        self._states = torch.zeros(len(source), 1, dtype=torch.long, device=source.device)

    def score(self, tokens: Tensor) -> Tensor:
        """Bonus (B, W, V) of the next token, given the last token of each hypothesis (B, W)."""
        self._states = self.move(self._states, tokens)
        return self.gains(self._states)

    def move(self, states: Tensor, tokens: Tensor) -> Tensor:
        """The states (B, W) after one more token (B, W) each; 0 is the state of an empty text."""
        moves = self._moves(states)
        matches = self._tokens[moves] == tokens.unsqueeze(-1)  # (B, W, moves)
        return torch.where(matches.any(-1), (self._targets[moves] * matches).sum(-1), self._root[tokens])

    def count(self, tokens: Iterable[int]) -> tuple[int, int]:
        """Number of complete phrases in a text, and of their tokens."""
        node, phrases, bonus = 0, 0, 0.0
        for token in tokens:
            first = self._tree.children[0].get(token, 0)
            node, gain = self._walk[node].get(token, (first, float(first > 0) - self._tree.pending[node]))
            bonus += gain
            phrases += gain > 0 and not self._tree.pending[node]
        return phrases, round(bonus - self._tree.pending[node])

    def gains(self, states: Tensor) -> Tensor:
        """Bonus (B, W, V) of the next token in the states (B, W)."""
        moves = self._moves(states)
        return self._by_token(moves, -self._pending[states], self._gains[moves], (self._root > 0).float())

    def pending(self, states: Tensor) -> Tensor:
        """The bonus of an unfinished phrase in the states (B, W), which the end of a text takes back."""
        return self._pending[states]

    def unfinished(self) -> Tensor:
        """The bonus of an unfinished phrase after each next token, (B, W, V), for the tokens of the last `score`."""
        moves = self._moves(self._states)
        after = self._pending[self._targets[moves]]
        none = after.new_zeros(self._states.shape)
        return self._by_token(moves, none, after, self._pending[self._root])

    def extend(self, parents: Tensor) -> None:
        """Replace the hypotheses by extensions of the hypotheses `parents` (B, W)."""
        self._states = self._states.gather(1, parents)

    def keep(self, rows: Tensor) -> None:
        """Keep only the utterances `rows`."""
        self._states = self._states[rows]

    def tell_once(self, weight: float, less: float) -> None:
        """Warn that phrases repeat at a weight, and that texts are searched again with less."""
        if not self._is_told:
            self._is_told = True
            reason = "makes hotwords repeat: a text has more of their tokens than its recording"
            log.warning(
                "hotword_weight %g %s; it is searched again with %g or less; lower --hotword_weight",
                weight,
                reason,
                less,
            )

    def _moves(self, states: Tensor) -> Tensor:
        """Places (B, W, moves) of the moves of the states (B, W) in the tables; the last place is no move."""
        begins, ends = self._begins[states].unsqueeze(-1), self._begins[states + 1].unsqueeze(-1)
        places = begins + torch.arange(self._width, device=states.device)
        return places.masked_fill(places >= ends, len(self._tokens) - 1)

    def _by_token(self, moves: Tensor, default: Tensor, values: Tensor, first: Tensor) -> Tensor:
        """(B, W, V) with `values` of moves (B, W, moves); other tokens have `default` (B, W) plus `first` (V + 1,)."""
        sums = default.unsqueeze(-1) + first
        return sums.scatter_(2, self._tokens[moves], values)[..., : self.vocabulary]


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
        """Tokens that lead to a node deeper than the root's children: the node, and what the token gains."""
        moves: dict[int, tuple[int, float]] = {}
        other = node
        while other:
            gain = 1.0 + self.pending[other] - self.pending[node]  # the unfinished part of `other` counts again
            for token, child in self.children[other].items():
                moves.setdefault(token, (child, gain))
            other = self._failure[other]
        return moves

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


def repeating(batch: Sequence[Sequence[Hypothesis]], hotwords: HotwordScorer, longest: float) -> list[int]:
    """Indices of the utterances whose best text, the first of `batch`, has 5 complete phrases or `longest` tokens."""
    counts = [(hotwords.count(best[0].tokens)[0], len(best[0].tokens)) if best else (0, 0) for best in batch]
    return [row for row, (phrases, tokens) in enumerate(counts) if phrases > _FEW or tokens >= longest]


def without_repeats(
    batch: Sequence[Sequence[Hypothesis]],
    most: Sequence[int],
    options: SearchOptions,
    hotwords: HotwordScorer,
    search: Callable[[list[int], SearchOptions], None],
) -> None:
    """Search again, with half of the weight each time, for texts in which phrases repeat without end.

    Args:
        batch: Hypotheses of each utterance, best first; `search` replaces some.
        most: Number of tokens that each utterance can have. A text that has more in at least 5 complete phrases is
            searched again.
        options: Options of the first search.
        hotwords: Scorer of the phrases.
        search: Searches for the hypotheses of the utterances with these indices again, with other options.
    """
    weight = options.hotword_weight
    while options.hotword_weight > _LEAST_WEIGHT:
        counts = [hotwords.count(best[0].tokens if best else ()) for best in batch]
        rows = [row for row, (phrases, count) in enumerate(counts) if phrases > _FEW and count > most[row]]
        if not rows:
            return
        options = replace(options, hotword_weight=options.hotword_weight / 2)
        hotwords.tell_once(weight, options.hotword_weight)
        search(rows, options)


Hotwords = str | Path | Sequence[str]
"""The path of a file with a phrase a line, or phrases."""


def split_hotwords(text: str) -> tuple[str, ...]:
    """Split a line of hotwords that a user has written, at commas, semicolons and line ends."""
    return tuple(filter(None, map(str.strip, re.split("[,;\n，；、]", text))))


def split_prompt(prompt: str) -> tuple[str, ...]:
    """The terms of a prompt: what is short among its parts between commas and ends of sentences.

    A prompt in Whisper's sense is a text before the recording. Its names can be hotwords; a sentence as a hotword would
    give a bonus to its beginning wherever that is spoken.
    """
    parts = (sentence.strip(_QUOTES) for part in split_hotwords(prompt) for sentence in _SENTENCE_END.split(part))
    return tuple(
        part for part in parts if part and len(part.split()) <= _TERM_WORDS and _columns(part) <= _TERM_COLUMNS
    )


def _columns(text: str) -> int:
    return sum(1 + (letter >= _FIRST_WIDE) for letter in text)


def load_hotwords(hotwords: Hotwords, search: str, tokens: TokenText, device: str) -> HotwordScorer:
    """Read hotwords for a search with these tokens, and log what was left out; for other errors see `read_hotwords`.

    Raises:
        ConfigError: The search is not the batched one.
    """
    if search != "batched":
        raise ConfigError(f"search={search} has no hotwords; set search=batched, or leave them out")
    phrases, notices = read_hotwords(hotwords, tokens.encode, UNKNOWN)
    for notice in alike_once(map(str, notices)):
        log.warning("notice: %s", notice)
    if not phrases:
        log.warning("notice: no hotword is left; the search is without hotwords")
    phrases += [inner for phrase in phrases if (inner := tokens.inside(phrase))]
    return HotwordScorer(phrases, len(tokens), device)


def usable_hotwords(phrases: Iterable[str], tokens: TokenText) -> tuple[str, ...]:
    """The phrases whose characters a vocabulary has."""
    return tuple(phrase for phrase in phrases if _encoded(phrase, tokens.encode, UNKNOWN))


def read_hotwords(
    hotwords: Hotwords, encode: Callable[[str], list[int]], unknown: int
) -> tuple[list[list[int]], list[Fault]]:
    """Read phrases as token indices; empty ones, and lines of a file that begin with #, are left out.

    A phrase with a character that the vocabulary lacks is tried in lower case and in upper case, and then left out. Of
    a line of a file with a weight at its end, such as "word 20" or "WORD :2.0", the phrase alone is read.

    Args:
        hotwords: The file, or the phrases.
        encode: Returns the token indices of a text.
        unknown: Index of <unk>.

    Returns:
        The phrases, and notices about those that were left out or changed.

    Raises:
        DataError: The file cannot be read, there is no phrase, or a phrase is no text.
    """
    if isinstance(hotwords, str) and not hotwords:
        raise DataError("hotwords are an empty text; give phrases, or the path of a file of them")
    known = partial(_encoded, encode=encode, unknown=unknown)
    if isinstance(hotwords, str | Path):
        path, (lines, faults) = str(hotwords), scan_lines(Path(hotwords))
        read = [("", "") if line.startswith("#") else _without_weight(line, known) for line in lines]
    elif not isinstance(hotwords, Iterable):
        raise DataError(f"hotwords are a {type(hotwords).__name__}; give phrases, or the path of a file of them")
    else:
        path, phrases = "hotwords", list(hotwords)
        read = [(clean_text(phrase)[0] if isinstance(phrase, str) else "", "") for phrase in phrases]
        kinds = [
            (number, type(phrase).__name__) for number, phrase in enumerate(phrases, 1) if not isinstance(phrase, str)
        ]
        faults = [Fault(path, number, f"is a {kind}; write each phrase as str") for number, kind in kinds]
    if not any(phrase for phrase, _ in read) and not faults:
        faults.append(Fault(path, None, "has no phrase; write one a line"))
    refuse(faults)
    encoded, notices = [known(phrase) for phrase, _ in read], []
    for number, ((phrase, notice), tokens) in enumerate(zip(read, encoded, strict=True), start=1):
        lacks = f"{phrase!r} is left out: the vocabulary lacks a character of it"
        reason = notice if tokens or not phrase else lacks
        notices += [Fault(path, number, reason)] if reason else []
    return list(filter(None, encoded)), notices


def _encoded(phrase: str, encode: Callable[[str], list[int]], unknown: int) -> list[int]:
    """Token indices of a phrase, in the case that the vocabulary has; none where it lacks a character."""
    forms = map(encode, (phrase, phrase.lower(), phrase.upper()))
    return next((tokens for tokens in forms if unknown not in tokens), [])


def _without_weight(line: str, known: Callable[[str], list[int]]) -> tuple[str, str]:
    """The phrase of a line, and a notice about a number at its end.

    The number is a weight after a colon, and where the vocabulary lacks its digits.
    """
    match = _WEIGHT.fullmatch(line)
    if match is None:
        return line, ""
    phrase, colon, weight = match.groups()
    if not colon and known(line):
        return line, f"{weight} is part of the phrase {line!r}; delete it if it is a weight"
    return phrase, f"the weight {weight} is not used: all phrases have --hotword_weight"
