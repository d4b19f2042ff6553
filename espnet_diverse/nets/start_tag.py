"""A tag of the target language as the decoder's first input, in place of the embedding of <sos/eos>.

Johnson et al., "Google's Multilingual Neural Machine Translation System", TACL 2017, put a token of the target language
into the text. Here the tag is an embedding of its own: it is no token, so it cannot be emitted, no loss and no search
knows of it, and it is chosen by the condition ids that head selection uses.

Null setting: without the option the decoder's embedding is ESPnet's. Cost: M parameters a condition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.condition_rows import ConditionRows, read_options


@dataclass(frozen=True)
class StartTagOptions:
    """Options of the start tag.

    Attributes:
        by: Condition of the conditions, by rights `tgtlang`, or a list of conditions.
        conditions: Names of each condition in the order of their indices; training fills them in.
    """

    by: str | Sequence[str]
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)


class TaggedEmbedding(nn.Embedding):
    """An embedding whose first position is that of the sample's condition; it shares the weights of the one it
    replaces.

    Args:
        embedding: The embedding of tokens.
        rows: Which tag a sample has.
    """

    def __init__(self, embedding: nn.Embedding, rows: ConditionRows):
        super().__init__(embedding.num_embeddings, embedding.embedding_dim, _weight=embedding.weight)
        self.rows = rows
        self.start = nn.Embedding(len(rows), embedding.embedding_dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids (B, T), <sos/eos> first -> (B, T, M), the tag first.

        Raises:
            DataError: The open scope has no condition for a sample.
        """
        tag = self.start(self.rows(len(tokens))).expand(len(tokens), -1)
        return torch.cat([tag.unsqueeze(1), super().forward(tokens[:, 1:])], dim=1)


def insert_start_tag(embed: nn.Sequential, options: Mapping[str, object] | None) -> None:
    """Exchange `embed[0]`, ESPnet's embedding of tokens, for one with a tag; None leaves it.

    Raises:
        ConfigError: An option is unknown or has a wrong value, or the decoder does not embed tokens.
    """
    if options is None:
        return
    if not isinstance(embed[0], nn.Embedding):
        raise ConfigError("start_tag needs a decoder that embeds tokens; set its input_layer to embed")
    chosen = read_options(StartTagOptions, "start_tag", options)
    embed[0] = TaggedEmbedding(embed[0], ConditionRows("start_tag", chosen.by, chosen.conditions))
