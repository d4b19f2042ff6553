"""Vocabularies: what the tokens of a text are, saved with the model and read alike by this package and by ESPnet.

Four types: `char` (one token a character, a space is `<space>`), the two of sentencepiece, `unigram` (Kudo 2018,
"Subword Regularization", arXiv:1804.10959) and `bpe` (Sennrich et al. 2016, arXiv:1508.07909), and `bert`, the
tokenizer of a pretrained encoder that reads the text. A vocabulary directory holds `tokens.txt` (one token a line:
`<blank>` first, `<unk>` second, `<sos/eos>` last), `tokens.yaml` and the tokenizer's own file, `bpe.model` of
sentencepiece and `tokenizer.json` of `bert`. Encoding and decoding equal ESPnet's `CharTokenizer` or
`SentencepiecesTokenizer` followed by `TokenIDConverter`.
"""

import io
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import yaml

from espnet_diverse.data.characters import clean_text
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.pretrained_tokenizer import FILE, PretrainedTokenizer, read_tokenizer

BLANK, UNKNOWN, SPACE, SENTENCE = "<blank>", "<unk>", "<space>", "<sos/eos>"
TYPES = ("char", "bpe", "unigram", "bert")
MODEL_FILES = {"bpe": "bpe.model", "unigram": "bpe.model", "bert": FILE}
"""File of the tokenizer by type; characters need none."""
_ESPNETS_TYPES = {"char": "char", "bpe": "bpe", "unigram": "bpe", "bert": "hugging_face"}


def normalise(text: str) -> str:
    """Unicode NFC without invisible characters; every run of white space is one plain space, none at the ends.

    ESPnet strips white space from the lines of a token list in one place and keeps it in another, so that a token
    such as the no-break space (U+00A0) or the ideographic space (U+3000) gets two different names. No character that
    `str.isspace` knows is left by this function, except the plain space.
    """
    return " ".join(clean_text(text)[0].split())


@dataclass(frozen=True)
class Coverage:
    """How much of a text a vocabulary covers.

    Attributes:
        characters: Number of characters of the text, spaces included.
        unknown: Count of each character that the vocabulary does not hold, most frequent first.
    """

    characters: int
    unknown: dict[str, int]

    def __str__(self) -> str:
        unknown = sum(self.unknown.values())
        total = f"{self.characters} characters, {unknown} of them unknown ({len(self.unknown)} different)"
        listed = [f"{_describe(character)} {count}x" for character, count in self.unknown.items()]
        more = ["..."] if len(listed) > 20 else []
        return f"{total}: {', '.join(listed[:20] + more)}" if listed else total


def _describe(character: str) -> str:
    shown = character if character.isprintable() else unicodedata.name(character, "unnamed")
    return f"U+{ord(character):04X} {shown}"


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    """Sort key: falling count, ties by code point."""
    return -item[1], item[0]


class Vocabulary:
    """Tokens and their indices.

    Args:
        type: One of `TYPES`.
        tokens: All tokens; `<blank>` first, `<unk>` second, `<sos/eos>` last.
        model: The content of the tokenizer's file; None for "char".

    Raises:
        ConfigError: The type is unknown.
        DataError: The tokens break a rule above, repeat, or differ from the pieces of the model.
    """

    def __init__(self, type: str, tokens: Sequence[str], model: bytes | None = None):
        _check_type(type)
        self.type = type
        self.tokens = tuple(tokens)
        self.model = model
        self._processor = None if type == "char" else _load_model(type, model)
        _check_tokens(self.tokens)
        if self._processor is not None and self.tokens != _tokens_of_model(self._processor):
            raise DataError(f"tokens.txt and {MODEL_FILES[type]} do not belong together; make the vocabulary again")
        self._index = {token: index for index, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def token_type(self) -> str:
        """ESPnet's name of the type: "char", "bpe" for every sentencepiece model, "hugging_face" for "bert"."""
        return _ESPNETS_TYPES[self.type]

    def tokenise(self, text: str) -> list[str]:
        """Tokens of `text`; what the vocabulary does not hold is left as it stands."""
        if self._processor is None:
            return [SPACE if character == " " else character for character in text]
        return self._processor.encode(text, out_type=str)

    def encode(self, text: str) -> list[int]:
        """Indices of the tokens of `text`; 1, the index of `<unk>`, for those that the vocabulary does not hold."""
        return [self._index.get(token, 1) for token in self.tokenise(text)]

    def decode(self, indices: Iterable[int]) -> str:
        """Text of token indices."""
        tokens = [self.tokens[index] for index in indices]
        if self._processor is None:
            return "".join(" " if token == SPACE else token for token in tokens)
        return self._processor.decode(tokens)

    def coverage(self, lines: Iterable[str]) -> Coverage:
        """Count the characters of `lines` that the vocabulary does not hold."""
        characters, unknown = 0, Counter()
        for line in lines:
            characters += len(line)
            for token in self.tokenise(line):
                if token not in self._index:
                    # sentencepiece joins neighbouring unknown characters into one piece.
                    unknown.update(" " if token == SPACE else token)
        return Coverage(characters, dict(sorted(unknown.items(), key=_by_count)))

    @classmethod
    def train(cls, lines: Iterable[str], type: str, vocab_size: int | None = None) -> "Vocabulary":
        """Make a vocabulary of the normalised `lines`; the same lines always give the same vocabulary.

        Args:
            lines: Transcripts, without utterance ids.
            type: "char" holds every character, by falling count, ties by code point; "bpe" and "unigram" order their
                pieces as sentencepiece does.
            vocab_size: Number of tokens, the special ones included; for "bpe" and "unigram" only.

        Raises:
            ConfigError: The type is unknown, or `vocab_size` does not suit the type or the text.
            DataError: The lines hold no character.
        """
        _check_type(type)
        if type == "bert":
            raise ConfigError("type bert is not made of text; give the encoder whose vocabulary it is, --bert PATH")
        lines = [line for line in map(normalise, lines) if line]
        if not lines:
            raise DataError("the training text holds no character; give transcripts with words")
        if type == "char":
            return cls(type, _characters(lines, vocab_size))
        model = _train_model(lines, type, vocab_size)
        return cls(type, _tokens_of_model(_load_model(type, model)), model)

    @classmethod
    def of_bert(cls, model: str | Path) -> "Vocabulary":
        """The vocabulary of a pretrained encoder, given by its folder or its name on the Hub.

        Raises:
            ConfigError: It has no tokenizer.json.
        """
        content = read_tokenizer(model)
        return cls("bert", _tokens_of_model(_load_model("bert", content)), content)

    def save(self, directory: str | Path) -> None:
        """Write tokens.txt, tokens.yaml and the tokenizer's file into `directory`."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        description = {"type": self.token_type, "algorithm": self.type}
        with tempfile.TemporaryDirectory(dir=directory, prefix=".tokens") as staging:
            staged = Path(staging)
            (staged / "tokens.txt").write_text("".join(f"{token}\n" for token in self.tokens), "utf-8", newline="\n")
            if self.model is not None:
                (staged / MODEL_FILES[self.type]).write_bytes(self.model)
            (staged / "tokens.yaml").write_text(yaml.safe_dump(description, sort_keys=False), "utf-8")
            # `load` refuses a directory without tokens.yaml: it goes first and, last in the alphabet, comes last, so
            # that a run killed in between leaves no mixture of an old and a new vocabulary.
            for name in ("tokens.yaml", *MODEL_FILES.values()):
                (directory / name).unlink(missing_ok=True)
            for file in sorted(staged.iterdir()):
                file.replace(directory / file.name)

    @classmethod
    def load(cls, directory: str | Path) -> "Vocabulary":
        """Read what `save` wrote.

        Raises:
            DataError: A file is missing or unreadable, or the files do not belong together.
        """
        directory = Path(directory)
        try:
            description = yaml.safe_load(_read(directory / "tokens.yaml"))
            type = description.get("algorithm") if isinstance(description, dict) else None
            _check_type(type)
            tokens = _read(directory / "tokens.txt").decode("utf-8").removesuffix("\n").split("\n")
            return cls(type, tokens, None if type == "char" else _read(directory / MODEL_FILES[type]))
        except (UnicodeDecodeError, yaml.YAMLError, ConfigError, DataError) as error:
            raise DataError(f"vocabulary {directory}: {' '.join(str(error).split())}") from error


def _check_type(type: str) -> None:
    if type not in TYPES:
        raise ConfigError(f"unknown vocabulary type {type!r}; choose one of {', '.join(TYPES)}")


def _check_tokens(tokens: tuple[str, ...]) -> None:
    if len(tokens) < 3 or tokens[:2] != (BLANK, UNKNOWN) or tokens[-1] != SENTENCE:
        raise DataError(f"the token list must begin with {BLANK} and {UNKNOWN} and end with {SENTENCE}")
    twice = [token for token, count in Counter(tokens).items() if count > 1]
    if twice:
        raise DataError(f"token {twice[0]!r} stands in the token list more than once; remove it from the training text")
    unsafe = [token for token in tokens if not token or token != token.strip()]
    if unsafe:
        raise DataError(f"token {unsafe[0]!r} is empty or has white space at an end, which ESPnet would strip")


def _characters(lines: list[str], vocab_size: int | None) -> list[str]:
    if vocab_size is not None:
        raise ConfigError(f"vocab_size {vocab_size} does not go with type char, which holds every character; omit it")
    counts = sorted(Counter("".join(lines)).items(), key=_by_count)
    return [BLANK, UNKNOWN, *(SPACE if character == " " else character for character, _ in counts), SENTENCE]


def _train_model(lines: list[str], type: str, vocab_size: int | None) -> bytes:
    if vocab_size is None or vocab_size < 4:
        raise ConfigError(f"vocab_size is {vocab_size}; type {type} needs a number of tokens, for example 500")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=type,
            vocab_size=vocab_size,
            character_coverage=1.0,
            # `normalise` has been applied; sentencepiece's own rules would also turn Chinese punctuation into ASCII.
            normalization_rule_name="identity",
            # Longer lines (bytes) would be left out without a word; this is the largest value it takes.
            max_sentence_length=1 << 30,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ConfigError(_explain(str(error), vocab_size)) from error
    return model.getvalue()


def _explain(message: str, vocab_size: int) -> str:
    """One line about sentencepiece's error, with the allowed vocabulary size where it names one."""
    if too_high := re.search(r"<= (\d+)\.", message):
        return f"vocab_size {vocab_size} is too large for this text; the maximum is {too_high[1]}"
    if too_low := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return f"vocab_size {vocab_size} is too small for the characters of this text; the minimum is {too_low[1]}"
    return f"sentencepiece cannot make a vocabulary of {vocab_size} tokens: {' '.join(message.split())}"


def _load_model(type: str, model: bytes | None) -> sentencepiece.SentencePieceProcessor | PretrainedTokenizer:
    if type == "bert":
        return PretrainedTokenizer(model)
    try:
        if model:
            return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError:
        pass
    raise DataError("bpe.model is not a sentencepiece model; make the vocabulary again")


def _tokens_of_model(processor: sentencepiece.SentencePieceProcessor | PretrainedTokenizer) -> tuple[str, ...]:
    if isinstance(processor, PretrainedTokenizer):
        return (BLANK, UNKNOWN, *processor.tokens, SENTENCE)
    indices = range(processor.get_piece_size())
    pieces = [processor.id_to_piece(i) for i in indices if not (processor.is_unknown(i) or processor.is_control(i))]
    return (BLANK, UNKNOWN, *pieces, SENTENCE)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path.name} cannot be read ({error.strerror}); make it with espnet-diverse tokens") from error
