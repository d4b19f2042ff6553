"""Texts as tokens of a model, and back."""

from argparse import Namespace
from collections.abc import Collection, Sequence

from espnet2.text.build_tokenizer import build_tokenizer
from espnet2.text.token_id_converter import TokenIDConverter

from espnet_diverse.decoding.directory.results import Text

UNKNOWN = 1
"""Index of <unk>."""


class TokenText:
    """The vocabulary of a model's output text.

    Args:
        args: Arguments that the model was trained with.
        left_out: Indices of tokens that are not part of a text, including blank.
    """

    def __init__(self, args: Namespace, left_out: Collection[int] = (0,)):
        self._left_out = left_out
        self._converter = TokenIDConverter(token_list=args.token_list)
        model_of_pieces = {"bpemodel": args.bpemodel} if args.token_type == "bpe" else {}
        self._tokenizer = build_tokenizer(token_type=args.token_type, **model_of_pieces)

    def __len__(self) -> int:
        return self._converter.get_num_vocabulary_size()

    def tokenise(self, text: str) -> list[str]:
        """Tokens of a text."""
        return self._tokenizer.text2tokens(text)

    def encode(self, text: str) -> list[int]:
        """Token indices of a text."""
        return self.indices(self.tokenise(text))

    def indices(self, tokens: Sequence[str]) -> list[int]:
        """Indices of tokens."""
        return self._converter.tokens2ids(tokens)

    def decode(self, indices: Sequence[int], score: float) -> Text:
        """The text of token indices, without blank and the other tokens that are left out, as ESPnet writes it.

        Args:
            indices: Token indices.
            score: Log score of the text.
        """
        tokens = self._converter.ids2tokens([index for index in indices if index not in self._left_out])
        return Text(self._tokenizer.tokens2text(tokens), tokens, score)
