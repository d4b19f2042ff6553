"""Texts as tokens of a model, and back."""

from argparse import Namespace
from collections.abc import Collection, Sequence

from espnet2.text.build_tokenizer import build_tokenizer
from espnet2.text.token_id_converter import TokenIDConverter

from espnet_diverse.data.scripts import UNSPACED_LETTER
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.errors import ModelError
from espnet_diverse.runs.tasks import PRETRAINED
from espnet_diverse.text.pretrained_tokenizer import PretrainedTokenizer
from espnet_diverse.untrusted.whole_files import read_bytes

UNKNOWN = 1
"""Index of <unk>."""
WORD_START = "▁"
"""Begins the first piece of a word in sentencepiece."""


class TokenText:
    """The vocabulary of a model's output text.

    Args:
        args: Arguments that the model was trained with.
        left_out: Indices of tokens that are not part of a text, including blank.

    Raises:
        ModelError: The arguments do not name the type of the tokens, or for bpe not the model.
    """

    def __init__(self, args: Namespace, left_out: Collection[int] = (0,)):
        settings = {key: getattr(args, key, None) for key in ("token_type", "bpemodel")}
        kind = settings["token_type"]
        needed = ("token_type", "bpemodel") if kind in ("bpe", PRETRAINED) else ("token_type",)
        if lacking := [key for key in needed if not settings[key]]:
            raise ModelError(f"config.yaml has no {lacking[0]}; use the file that training wrote")
        self._left_out, self._has_words = left_out, kind == "word"
        self._converter = TokenIDConverter(token_list=args.token_list)
        if kind == PRETRAINED:
            self._tokenizer = PretrainedTokenizer(read_bytes(settings["bpemodel"]))
        else:
            self._tokenizer = build_tokenizer(**{key: settings[key] for key in needed})

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

    def inside(self, indices: Sequence[int]) -> list[int]:
        """Tokens of a phrase within a text of a script without spaces, where no "▁" begins it; none for other scripts.

        Args:
            indices: Token indices of the phrase as a text, at least one.
        """
        first, *others = self._converter.ids2tokens(indices)
        rest = first.removeprefix(WORD_START)
        if rest == first or not UNSPACED_LETTER.match(rest + "".join(others)):
            return []
        inner = self.indices([*filter(None, [rest]), *others])
        return [] if UNKNOWN in inner else inner

    def pieces(self, tokens: Sequence[str]) -> Sequence[str]:
        """Tokens as pieces, of which those that begin a word begin with "▁", or follow <space>."""
        if isinstance(self._tokenizer, PretrainedTokenizer):
            return self._tokenizer.pieces(tokens)
        return [f"{WORD_START}{token}" for token in tokens] if self._has_words else tokens

    def decode(self, indices: Sequence[int], score: float) -> Text:
        """The text of token indices, without blank and the other tokens that are left out, as ESPnet writes it.

        Args:
            indices: Token indices.
            score: Log score of the text.
        """
        tokens = self._converter.ids2tokens([index for index in indices if index not in self._left_out])
        return Text(self._tokenizer.tokens2text(tokens), tokens, score)
