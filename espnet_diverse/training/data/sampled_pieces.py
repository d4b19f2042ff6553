"""Sampled pieces of words (`tokenizer_encode_conf: {enable_sampling: true}`) that depend on the seed of a row alone."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import sentencepiece
from espnet2.text.abs_tokenizer import AbsTokenizer
from espnet2.text.sentencepiece_tokenizer import SentencepiecesTokenizer


class SampledPieces(AbsTokenizer):
    """A tokenizer of SentencePiece that samples by NumPy's generator, which each row of data has seeded.

    SentencePiece has a generator in each thread, which takes its seed when it draws first: hence a new thread a text.

    Args:
        tokenizer: The tokenizer, which samples.
    """

    def __init__(self, tokenizer: SentencepiecesTokenizer):
        self.tokenizer = tokenizer

    def text2tokens(self, line: str) -> list[str]:
        """Return the pieces of a text."""
        sentencepiece.set_random_generator_seed(int(np.random.randint(2**31)))
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self.tokenizer.text2tokens, line).result()

    def tokens2text(self, tokens: Iterable[str]) -> str:
        """Return the text of pieces."""
        return self.tokenizer.tokens2text(tokens)


def seeded(tokenizer: AbsTokenizer | None) -> AbsTokenizer | None:
    """Return a tokenizer that samples as `SampledPieces`, and another one as it is."""
    samples = isinstance(tokenizer, SentencepiecesTokenizer) and tokenizer.encode_kwargs.get("enable_sampling")
    return SampledPieces(tokenizer) if samples else tokenizer
