"""Shortlists: the tokens that a translation may have, chosen by the source tokens (Jean et al. 2015).

Jean et al., "On using very large target vocabulary for neural machine translation", section 3.2, as in Marian: the most
probable translations of each source token by a lexical table (`text/lexical_table.py`), and tokens that are always
allowed. The output layer is computed for the tokens of a batch, and the softmax of a sentence over its own tokens, so
that the other sentences of its batch have no influence. With all tokens the search is the one without a shortlist.
"""

from argparse import Namespace
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.copies import copied
from espnet_diverse.text.lexical_table import LexicalTable, load


class Allowed(NamedTuple):
    """Tokens that the sentences of a batch may have.

    Attributes:
        tokens: Tokens of each sentence in ascending order, (B, K); -1 fills up sentences with fewer.
        rows: All of them, (U,).
        columns: Place in `rows` of each of the tokens, (B, K); None where every sentence has all rows.
    """

    tokens: Tensor
    rows: Tensor
    columns: Tensor | None

    def keep(self, index: Tensor) -> "Allowed":
        """The tokens of the sentences at `index` (B',)."""
        return Allowed(self.tokens[index], self.rows, None if self.columns is None else self.columns[index])

    def of_all(self, scores: Tensor) -> Tensor:
        """Values (B, W, K) of the tokens of each sentence, from those of the whole vocabulary (B, W, V)."""
        return scores.gather(-1, _index(self.tokens, scores))

    def of_rows(self, scores: Tensor) -> Tensor:
        """Scores (B, W, K) of the tokens of each sentence, -inf for the filling, from those of `rows` (B, W, U)."""
        if self.columns is None:
            return scores
        filling = (self.tokens < 0).unsqueeze(1)
        return scores.gather(-1, _index(self.columns, scores)).masked_fill_(filling, -inf)

    def named(self, places: Tensor) -> Tensor:
        """The tokens that are at places (B, W) among those of each sentence; 0 for the filling."""
        return self.tokens.gather(1, places).clamp_(min=0)


def _index(places: Tensor, scores: Tensor) -> Tensor:
    return places.clamp(min=0).unsqueeze(1).expand(-1, scores.size(1), -1)


class Shortlist:
    """Tokens that the translation of a text may have.

    Args:
        table: Lexical table over the model's tokens.
        special: Tokens that are always allowed, such as <sos/eos>.
        path: File of the table, for messages.
    """

    def __init__(self, table: LexicalTable, special: Sequence[int], path: Path):
        self.table, self.special, self.path = table, np.array(special), path

    def __call__(
        self, sources: Sequence[NDArray[np.generic]], options: SearchOptions, device: Any, more: Sequence[int] = ()
    ) -> Allowed:
        """The tokens for a batch of source texts.

        Args:
            sources: Token indices (T,) of each text.
            options: Search options; `shortlist_first` and `shortlist_best` are numbers.
            device: Device of the search.
            more: Other tokens that are allowed, such as those of hotwords.
        """
        table, best = self.table, options.shortlist_best
        always = [self.special, table.of_null[: options.shortlist_first], np.array(more, np.int64)]
        texts = (set(source.tolist()) for source in sources)
        allowed = [np.unique(np.concatenate([*always, *(table.best(token, best) for token in text)])) for text in texts]
        rows, longest = np.unique(np.concatenate(allowed)), max(map(len, allowed))
        tokens = np.stack([np.pad(ids, (0, longest - len(ids)), constant_values=-1) for ids in allowed])
        alike = all(len(ids) == len(rows) for ids in allowed)
        columns = None if alike else copied(np.searchsorted(rows, tokens), device)
        return Allowed(copied(tokens, device), copied(rows, device), columns)

    def check(self, options: SearchOptions) -> None:
        """Refuse options that ask for tokens that the table lacks.

        Raises:
            ConfigError: `options.shortlist_first` is not 0, and the table has no tokens of NULL.
        """
        if options.shortlist_first and not len(self.table.of_null):
            reason = f"{self.path}: has no lines of the source NULL, from which shortlist_first takes its tokens"
            raise ConfigError(f"{reason}; set shortlist_first=0, or make it with espnet-diverse shortlist")


def load_shortlist(path: Path, args: Namespace, task: str) -> Shortlist:
    """Read the lexical table of a shortlist for a model; <blank>, <unk> and <sos/eos> are always allowed.

    Args:
        path: The file.
        args: Arguments that the model was trained with.
        task: Task of the model.

    Raises:
        ConfigError: The model does not translate text.
        DataError: See `lexical_table.load`.
    """
    if task != "mt":
        raise ConfigError(f"{path}: a shortlist is for models that translate text, not for task {task}; leave it out")
    return Shortlist(load(path, args.src_token_list, args.token_list), (0, 1, len(args.token_list) - 1), path)
