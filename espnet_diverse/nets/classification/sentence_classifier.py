"""A classifier of sentences: embedding, BiLSTM, self-attentive pooling, and a layer of rectified units.

Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", sections 2.1 and 4.1, without the pruned weights of
its appendix. The classes are the values of a condition, such as the language of the text, from a table utt2lang.

Pairs of sentences, such as premise and hypothesis, share all weights up to their vectors u and v, of which the last
layers read [u; v; |u - v|; u * v] (Mou et al. 2016, "Natural Language Inference by Tree-Based Convolution and Heuristic
Matching", section 3.2). Lin et al. multiply a projection of each head instead; An et al. 2020, who repel the heads, do
not say how they join them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from espnet2.torch_utils.device_funcs import force_gatherable
from espnet2.train.abs_espnet_model import AbsESPnetModel
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from espnet_diverse.attention.self_attentive_pooling import SelfAttentivePooling
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.scope import current


class Classified(NamedTuple):
    """Output of the classifier for B sentences.

    Attributes:
        scores: Scores of the C classes before the softmax, (B, C).
        heads: Vectors of the H heads of each of S texts, (B, S, H, M); S is 2 for pairs of sentences, else 1.
    """

    scores: Tensor
    heads: Tensor


class PooledClassifier(nn.Module, ABC):
    """Base of classifiers of text whose heads pool the hidden states of the tokens.

    Args:
        by: Condition whose values are the classes, a name of `conditions.CONDITIONS` or a list of one.
        conditions: Values of that condition, by its name; training fills them in.

    Attributes:
        pairs: Whether two texts are read.

    Raises:
        ValueError: There is not one condition, or it has fewer than 2 values.
    """

    pairs = False
    pooling: SelfAttentivePooling

    def __init__(self, by: str | Sequence[str] | None, conditions: Mapping[str, Sequence[str]] | None):
        super().__init__()
        self.by, self.labels = _read_classes(by, conditions or {})

    def encode(self, text: Tensor, lengths: Tensor) -> Tensor:
        """Tokens (B, T) with their numbers (B,), 1 or more each -> vectors of the heads (B, H, M)."""
        return self.pooling(*self._states(text, lengths))

    def head_maps(self, text: Tensor, lengths: Tensor) -> Tensor:
        """Tokens (B, T) with their numbers (B,), 1 or more each -> weight of each token in each head (B, H, T)."""
        return self.pooling.weights(*self._states(text, lengths))

    @abstractmethod
    def _states(self, text: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return hidden states (B, T, M) and the mask of valid positions (B, 1, T)."""


class SelfAttentiveClassifier(PooledClassifier):
    """Embedding, BiLSTM, self-attentive pooling, and a layer of rectified units.

    Args:
        vocab_size: Number of tokens.
        by: Condition whose values are the classes, a name of `conditions.CONDITIONS` or a list of one.
        conditions: Values of that condition, by its name; training fills them in.
        embed_dim: Width of the embeddings.
        hidden_size: Width of the LSTM in each direction.
        pooling_width: Width of the keys of the pooling.
        heads: Number of heads of the pooling; the paper has 30.
        linear_units: Width of the rectified layer.
        dropout_rate: Dropout rate of embeddings, pooled vectors and the rectified layer.
        frobenius: Weight of the loss ||A A^T - I||_F^2 of the pooling weights, 0 for none.

    Raises:
        ValueError: There is not one condition, or it has fewer than 2 values, or a number is not possible.
    """

    def __init__(
        self,
        vocab_size: int,
        by: str | Sequence[str] | None = None,
        conditions: Mapping[str, Sequence[str]] | None = None,
        embed_dim: int = 300,
        hidden_size: int = 300,
        pooling_width: int = 350,
        heads: int = 30,
        linear_units: int = 2000,
        dropout_rate: float = 0.5,
        frobenius: float = 0.0,
    ):
        super().__init__(by, conditions)
        self.embed = nn.Embedding(vocab_size, embed_dim)
        self.lstm = nn.LSTM(embed_dim, hidden_size, batch_first=True, bidirectional=True)
        self.pooling = SelfAttentivePooling(2 * hidden_size, pooling_width, heads, frobenius)
        self.dropout = nn.Dropout(dropout_rate)
        self.hidden = nn.Linear((4 if self.pairs else 1) * heads * 2 * hidden_size, linear_units)
        self.output = nn.Linear(linear_units, len(self.labels))

    def forward(self, text: Tensor, lengths: Tensor, *first: Tensor) -> Classified:
        """Classify texts or pairs.

        Args:
            text: Tokens (B, T); for pairs, of the second texts.
            lengths: Their numbers, (B,), 1 or more each.
            first: For pairs, tokens (B, S) of the first texts and their numbers (B,).
        """
        heads = [self.encode(*first), self.encode(text, lengths)] if self.pairs else [self.encode(text, lengths)]
        vectors = [x.flatten(1) for x in heads]
        if self.pairs:
            u, v = vectors
            vectors += [(u - v).abs(), u * v]
        return Classified(self.scores(torch.cat(vectors, -1)), torch.stack(heads, 1))

    def _states(self, text: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x = self.dropout(self.embed(text))
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=text.size(1))
        return x, lengths_to_mask(lengths, text.size(1)).unsqueeze(1)

    def scores(self, vectors: Tensor) -> Tensor:
        """Vectors of sentences, or of pairs of them, (B, D) -> scores of the classes (B, C)."""
        hidden = torch.relu(self.hidden(self.dropout(vectors)))
        return self.output(self.dropout(hidden))


class SelfAttentivePairClassifier(SelfAttentiveClassifier):
    """The classifier of pairs of sentences, with the same arguments and errors as `SelfAttentiveClassifier`."""

    pairs = True


def _read_classes(by: str | Sequence[str] | None, conditions: Mapping[str, Sequence[str]]) -> tuple[str, list[str]]:
    """Return the condition that is predicted, and its values in the order of their indices.

    Raises:
        ValueError: There is not one condition, or it has fewer than 2 values.
    """
    names = [by] if isinstance(by, str) else list(by or [])
    if len(names) != 1:
        raise ValueError(f"by {by!r} is not one condition; write by: lang, for example, to classify by utt2lang")
    labels = list(conditions.get(names[0], ()))
    if len(labels) < 2:
        raise ValueError(f"{names[0]} has {len(labels)} values in the training data; a classifier needs 2 or more")
    return names[0], labels


class ClassificationModel(AbsESPnetModel):
    """Cross-entropy of the class of a sentence, or of a pair, which is a condition of the open scope.

    Args:
        classifier: The net; its `by` is the condition whose values are the classes.
    """

    def __init__(self, classifier: PooledClassifier):
        super().__init__()
        self.classifier, self.by = classifier, classifier.by

    def forward(
        self, text: Tensor, text_lengths: Tensor, *, utt_id: object = None, **first: Tensor
    ) -> tuple[Tensor, dict[str, Tensor | None], Tensor]:
        """Compute loss (1,), statistics of (1,) each, and weight (1,).

        Args:
            text: Tokens (B, T).
            text_lengths: Their numbers (B,).
            utt_id: Ids of the sentences, which are not used.
            first: For pairs, `src_text` and `src_text_lengths`: tokens of the first texts and their numbers.

        Raises:
            ValueError: The open scope has no classes of the sentences.
        """
        labels = current().condition(self.by, len(text))
        of_pair = (first["src_text"], first["src_text_lengths"]) if self.classifier.pairs else ()
        scores = self.classifier(text, text_lengths, *of_pair).scores
        loss = F.cross_entropy(scores, labels)
        accuracy = (scores.argmax(-1) == labels).float().mean()
        return force_gatherable((loss, {"loss": loss.detach(), "acc": accuracy}, len(text)), loss.device)

    def collect_feats(self, text: Tensor, text_lengths: Tensor, **_) -> dict[str, Tensor]:
        """Return nothing: text has no features."""
        return {}
