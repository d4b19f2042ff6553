"""The tokenizer of a pretrained encoder of Hugging Face, such as BERT's (Devlin et al. 2019), as a vocabulary.

It is read from `tokenizer.json`, which is data: no code of a model is run. A token list of it, as ESPnet wants one, is

    <blank> <unk> <all tokens by their ids, but the tokenizer's own unknown token> <sos/eos>
"""

import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from espnet_diverse.errors import ConfigError, DataError

FILE = "tokenizer.json"


class PretrainedTokenizer:
    """A tokenizer, with the methods of ESPnet's tokenizers and of sentencepiece.

    Args:
        model: Content of a tokenizer.json.

    Attributes:
        tokens: Its tokens by their ids, without the one for what it does not know; one that ESPnet could not keep in a
            list of lines has another name, and is then not known.

    Raises:
        DataError: It is no tokenizer of Hugging Face.
    """

    def __init__(self, model: bytes):
        tokenizers = _tokenizers()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(model)
        except ValueError as error:
            raise DataError(f"{FILE} is not a tokenizer of Hugging Face; make the vocabulary again") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        ids = sorted((index, token) for token, index in self._tokenizer.get_vocab(with_added_tokens=True).items())
        self._unknown = _unknown(json.loads(model)["model"], dict(ids))
        self._ids = [index for index, token in ids if token != self._unknown]
        self.tokens = [_listed(index, token) for index, token in ids if token != self._unknown]

    def encode(self, text: str, out_type: type = str) -> list[str]:
        """Tokens of `text`; what the tokenizer does not know is left as it stands."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        spans = zip(encoded.tokens, encoded.offsets, strict=True)
        return [text[begin:end] if token == self._unknown else token for token, (begin, end) in spans]

    text2tokens = encode

    def decode(self, tokens: Iterable[str]) -> str:
        """Text of tokens; those that the tokenizer does not know are left out."""
        ids = [self._tokenizer.token_to_id(token) for token in tokens]
        return self._tokenizer.decode([index for index in ids if index is not None])

    tokens2text = decode

    def encode_marked(self, text: str) -> list[int]:
        """The encoder's indices of the tokens of `text`, with the marks around a sentence."""
        return self._tokenizer.encode(text).ids

    def ids(self) -> list[int]:
        """The encoder's index of each token of the list above, and that of the mark at the end of a sentence.

        <sos/eos> is the encoder's mark at the begin of a sentence, BERT's [CLS].

        Raises:
            ConfigError: The tokenizer puts no such marks around a sentence.
        """
        marks = self.encode_marked("")
        if len(marks) != 2:
            raise ConfigError(
                f"the tokenizer puts {len(marks)} marks around a sentence; BERT's puts 2, [CLS] and [SEP]"
            )
        begin, end = marks
        unknown = begin if self._unknown is None else self._tokenizer.token_to_id(self._unknown)
        return [begin, unknown, *self._ids, begin, end]


def read_tokenizer(model: str | Path) -> bytes:
    """The tokenizer.json of a model.

    Args:
        model: Its folder, or its name on the Hub, from where it is downloaded.

    Raises:
        ConfigError: It has none, or the package tokenizers is missing.
    """
    tokenizers = _tokenizers()
    if Path(model).is_dir():
        try:
            return (Path(model) / FILE).read_bytes()
        except OSError as error:
            raise ConfigError(f"{Path(model) / FILE}: cannot be read ({error.strerror}); {_SAVE}") from error
    try:
        return tokenizers.Tokenizer.from_pretrained(str(model)).to_str().encode()
    except Exception as error:  # the package has no class of its own for what can go wrong
        said = " ".join(str(error).split())
        raise ConfigError(f"{model}: no folder, nor a model on the Hub whose tokenizer can be read ({said})") from error


_SAVE = "write it with save_pretrained of the model's AutoTokenizer"


def _tokenizers() -> ModuleType:
    try:
        import tokenizers
    except ImportError as error:
        raise ConfigError(
            "a pretrained tokenizer needs the package tokenizers; install espnet_diverse[bert]"
        ) from error
    return tokenizers


def _unknown(model: dict, tokens: dict[int, str]) -> str | None:
    """The token for what a tokenizer does not know, which its types of models name by text or by index."""
    index = model.get("unk_id")
    return model.get("unk_token") if index is None else tokens[index]


def _listed(index: int, token: str) -> str:
    unsafe = not token or token != token.strip() or token in ("<blank>", "<unk>", "<sos/eos>")
    return f"<token-{index}>" if unsafe else token
