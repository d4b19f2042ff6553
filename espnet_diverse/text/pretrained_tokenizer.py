"""The tokenizer of a pretrained Hugging Face encoder, such as BERT (Devlin et al. 2019), as a vocabulary.

The tokenizer is read from `tokenizer.json`; no code of a model is executed. Its token list in ESPnet's format is

    <blank> <unk> <all tokens by their ids, except the unknown token of the tokenizer> <sos/eos>
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from espnet_diverse.data.scripts import PUNCTUATION, RANGES
from espnet_diverse.errors import ConfigError, DataError, optional_package
from espnet_diverse.text.foreign_tokenizer import FILE, MOST_BYTES, read_content
from espnet_diverse.untrusted.hub import encoder_folder
from espnet_diverse.untrusted.whole_files import read_bytes

_OF_WHISPER = "<|startoftranscript|>"
_UNSPACED_START = re.compile(f"[{RANGES}{PUNCTUATION} ]|$")


class PretrainedTokenizer:
    """A tokenizer with the methods of ESPnet's tokenizers and of sentencepiece.

    Args:
        model: Content of a tokenizer.json.

    Attributes:
        tokens: Tokens by their ids, without the unknown token. Tokens that cannot be a line of ESPnet's token list are
            renamed to <token-ID> and are then unknown.

    Raises:
        DataError: `model` is not a tokenizer of Hugging Face, or has a value that is not allowed.
    """

    def __init__(self, model: bytes):
        tokenizers = optional_package("tokenizers", "a pretrained tokenizer", "whisper")
        content = read_content(model)
        with _refusing():
            self._tokenizer = tokenizers.Tokenizer.from_buffer(model)
            self._tokenizer.encode("a")
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        ids = sorted((index, token) for token, index in self._tokenizer.get_vocab(with_added_tokens=True).items())
        self._unknown = _unknown(content["model"], dict(ids))
        self._begins_with_space = self._tokenizer.token_to_id(_OF_WHISPER) is not None
        if self._begins_with_space:
            self._tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._ids = [index for index, token in ids if token != self._unknown]
        self.tokens = [_listed(index, token) for index, token in ids if token != self._unknown]

    def encode(self, text: str, out_type: type = str) -> list[str]:
        """Tokens of `text`; unknown tokens are kept as text.

        Whisper writes a space before its first word, but not in Chinese, Japanese and other scripts without spaces.
        """
        if self._begins_with_space and not _UNSPACED_START.match(text):
            text = f" {text}"
        with _refusing():
            encoded = self._tokenizer.encode(text, add_special_tokens=False)
        spans = zip(encoded.tokens, encoded.offsets, strict=True)
        return [text[begin:end] if token == self._unknown else token for token, (begin, end) in spans]

    text2tokens = encode

    def decode(self, tokens: Iterable[str]) -> str:
        """Text of tokens, without the space that some tokenizers put before it; unknown tokens are left out."""
        ids = [self._tokenizer.token_to_id(token) for token in tokens]
        with _refusing():
            return self._tokenizer.decode([index for index in ids if index is not None]).removeprefix(" ")

    tokens2text = decode

    def pieces(self, tokens: Sequence[str]) -> list[str]:
        """Texts of tokens in sentencepiece's form, with "▁" for a space at the beginning.

        Several tokens may be needed for one character; its text belongs to the first, and the others have none.
        """
        ids = [self._tokenizer.token_to_id(token) for token in tokens]
        pieces, first = [""] * len(ids), 0
        for after in range(1, len(ids) + 1):
            text = self._tokenizer.decode([index for index in ids[first:after] if index is not None])
            if not text.endswith("\ufffd") or after == len(ids):
                pieces[first], first = f"▁{text[1:]}" if text.startswith(" ") else text, after
        return pieces

    def encode_with_special_tokens(self, text: str) -> list[int]:
        """The encoder's indices of the tokens of `text`, with its special tokens at the beginning and end."""
        with _refusing():
            return self._tokenizer.encode(text).ids

    def ids(self) -> list[int]:
        """The encoder's index for each entry of the token list, followed by its index of the end of a sentence.

        <blank> and <sos/eos> get the index of the beginning of a sentence, BERT's [CLS]; the end is BERT's [SEP].

        Raises:
            ConfigError: The tokenizer does not put one special token at each end of a sentence.
        """
        special = self.encode_with_special_tokens("")
        if len(special) != 2:
            raise ConfigError(
                f"the tokenizer adds {len(special)} special tokens to a sentence; it must add 2, as BERT does"
            )
        begin, end = special
        unknown = begin if self._unknown is None else self._tokenizer.token_to_id(self._unknown)
        return [begin, unknown, *self._ids, begin, end]


def read_tokenizer(model: str | Path) -> bytes:
    """Content of the tokenizer.json of a model.

    Args:
        model: Folder of the model, or hf:owner/name.

    Raises:
        ConfigError: There is no such folder, or it has no tokenizer.json.
        ModelError: The files of hf:owner/name cannot be fetched.
    """
    file = encoder_folder(model) / FILE
    try:
        return read_bytes(file, MOST_BYTES)
    except OSError as error:
        todo = "write it with save_pretrained of the model's AutoTokenizer"
        raise ConfigError(f"{file}: cannot be read ({error.strerror}); {todo}") from error


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn errors of the library, which may be panics, into errors of the file."""
    try:
        yield
    except BaseException as error:
        if type(error) not in (Exception, ValueError) and type(error).__name__ != "PanicException":
            raise
        raise DataError(f"{FILE} is not a tokenizer of Hugging Face; make the vocabulary again") from error


def _unknown(model: dict, tokens: dict[int, str]) -> str | None:
    """The unknown token of a tokenizer, whose model gives it by text or by index."""
    index = model.get("unk_id")
    return model.get("unk_token") if index is None else tokens[index]


def _listed(index: int, token: str) -> str:
    unsafe = not token or token != token.strip() or token in ("<blank>", "<unk>", "<sos/eos>")
    return f"<token-{index}>" if unsafe else token
