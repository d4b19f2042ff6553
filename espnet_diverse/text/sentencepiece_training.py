"""Training of a sentencepiece model, on a sample of the sentences if they are many.

sentencepiece keeps all sentences, and more than their text where words are long: with bpe 3.4 kB for a sentence of 19
Chinese characters. Beyond `INPUT_SENTENCE_SIZE` sentences it therefore gets a sample (algorithm R of Vitter 1985,
"Random Sampling with a Reservoir"), and the characters of all sentences.
"""

import io
import logging
import re
from collections.abc import Iterable, Iterator
from random import Random

from espnet_diverse.errors import ConfigError

INPUT_SENTENCE_SIZE = 1_000_000
"""Number of sentences above which a model is trained on a sample. sentencepiece itself warns of more."""

log = logging.getLogger(__name__)


def checked_size(type: str, vocab_size: int | None) -> int:
    """The number of tokens of a type of sentencepiece.

    Raises:
        ConfigError: It is missing, or less or more than any vocabulary has.
    """
    if vocab_size is None or not 4 <= vocab_size < 1 << 31:
        raise ConfigError(f"vocab_size is {vocab_size}; type {type} needs a number of tokens, for example 500")
    return vocab_size


def train_model(lines: Iterable[str], type: str, vocab_size: int | None, input_sentence_size: int) -> bytes:
    """Train a model; the result is deterministic.

    Args:
        lines: Sentences, normalised.
        type: "bpe" or "unigram".
        vocab_size: Number of tokens.
        input_sentence_size: Number of sentences that are drawn if there are more; 0 for all.

    Returns:
        The content of the model's file. Each character of `lines` is a token.

    Raises:
        ConfigError: A number is not possible, or `vocab_size` does not fit the sentences.
    """
    import sentencepiece  # commands read INPUT_SENTENCE_SIZE for --help

    vocab_size = checked_size(type, vocab_size)
    if input_sentence_size < 0:
        raise ConfigError(f"input_sentence_size {input_sentence_size} is not possible; give a number, or 0 for all")
    if input_sentence_size:
        lines = _sampled(lines, input_sentence_size)
    model = io.BytesIO()
    raised: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_until_exception(lines, raised),  # sentencepiece keeps the lines, in memory of its own
            model_writer=model,
            model_type=type,
            vocab_size=vocab_size,
            character_coverage=1.0,
            # `normalise` was applied before; sentencepiece's rules would also convert Chinese punctuation to ASCII.
            normalization_rule_name="identity",
            # Longer lines, in bytes, are silently left out; this is the largest possible value.
            max_sentence_length=1 << 30,
            minloglevel=2,
        )
    except (RuntimeError, SystemError) as error:
        if raised:
            raise raised[0] from None
        if isinstance(error, SystemError):
            raise
        raise ConfigError(_explain(str(error), vocab_size)) from error
    return model.getvalue()


def byte_model() -> bytes:
    """Return the content of a model whose pieces are the 256 bytes and the space."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d"]),  # in which the space is the most frequent character, the only one kept
        model_writer=model,
        model_type="char",
        vocab_size=3 + 256 + 1,  # <unk>, <s> and </s> of the model, the bytes, the space
        byte_fallback=True,
        add_dummy_prefix=False,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    return model.getvalue()


def _until_exception(lines: Iterable[str], raised: list[BaseException]) -> Iterator[str]:
    """Lines; an exception, such as an interrupt, is added to `raised`.

    sentencepiece takes an exception for the end of the lines, and raises another one.
    """
    try:
        yield from lines
    except BaseException as error:
        raised.append(error)
        raise


def _sampled(lines: Iterable[str], size: int) -> Iterator[str]:
    """All lines in their order; or a random sample of `size` lines, and a line of the characters that it lacks."""
    sample: list[str] = []
    characters: set[str] = set()
    count, draw = 0, Random(0).random
    for count, line in enumerate(lines, start=1):
        characters.update(line)
        if count <= size:
            sample.append(line)
        elif (place := int(draw() * count)) < size:
            sample[place] = line
    if count > size:
        log.warning(
            "notice: tokens are learned from a random sample of %d of %d sentences, and have all their characters; "
            "--input_sentence_size sets the number, 0 for all",
            *(size, count),
        )
        lacking = characters.difference(*sample)
        sample += [" ".join(sorted(lacking))] if lacking else []
    sample.reverse()
    while sample:  # each is let go as sentencepiece takes it
        yield sample.pop()


def _explain(message: str, vocab_size: int) -> str:
    """One line about sentencepiece's error, with the allowed vocabulary size if the error has it."""
    if too_high := re.search(r"<= (\d+)\.", message):
        return f"vocab_size {vocab_size} is too large for this text; the maximum is {too_high[1]}"
    if too_low := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return f"vocab_size {vocab_size} is too small for the characters of this text; the minimum is {too_low[1]}"
    return f"sentencepiece cannot make a vocabulary of {vocab_size} tokens: {' '.join(message.split())}"
