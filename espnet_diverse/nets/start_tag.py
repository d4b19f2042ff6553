"""A tag of the target language as the decoder's first input, instead of the embedding of <sos/eos>.

Johnson et al., "Google's Multilingual Neural Machine Translation System", TACL 2017, add a token of the target language
to the text. Here the tag is a separate embedding and no token of the vocabulary: it cannot be emitted, and losses and
search do not change. It is chosen by the conditions of the sample, as in head selection.

Without the option the decoder's embedding is ESPnet's. Cost: M parameters for each tag.
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
        by: The condition that the tag is chosen by, usually `tgtlang`, or a list of conditions.
        conditions: Values of each condition in the order of their indices; training fills them in.
    """

    by: str | Sequence[str]
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)


class TaggedEmbedding(nn.Embedding):
    """An embedding of tokens that replaces the first position by the tag of the sample.

    Args:
        embedding: The embedding of tokens that it replaces, and whose weights it shares.
        rows: Returns the index of the tag of each sample.
    """

    def __init__(self, embedding: nn.Embedding, rows: ConditionRows):
        super().__init__(embedding.num_embeddings, embedding.embedding_dim, _weight=embedding.weight)
        self.rows = rows
        self.start = nn.Embedding(len(rows), embedding.embedding_dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embed token indices (B, T), <sos/eos> first -> (B, T, M), the tag first.

        Raises:
            DataError: A condition of a sample is not in the open scope, or its values have no tag.
        """
        tag = self.start(self.rows(len(tokens))).expand(len(tokens), -1)
        return torch.cat([tag.unsqueeze(1), super().forward(tokens[:, 1:])], dim=1)


def insert_start_tag(embed: nn.Sequential, options: Mapping[str, object] | None) -> None:
    """Replace `embed[0]`, ESPnet's embedding of tokens, by one with a tag.

    Args:
        embed: The input layer of the decoder.
        options: `StartTagOptions` by name; None changes nothing.

    Raises:
        ConfigError: An option is unknown or has a value that is not allowed, or the decoder does not embed tokens.
    """
    if options is None:
        return
    if not isinstance(embed[0], nn.Embedding):
        raise ConfigError("start_tag needs a decoder that embeds tokens; set its input_layer to embed")
    chosen = read_options(StartTagOptions, "start_tag", options)
    embed[0] = TaggedEmbedding(embed[0], ConditionRows("start_tag", chosen.by, chosen.conditions))
