"""Vocabularies: tokens and tokenizers of texts, saved in files that ESPnet can read as well.

There are six types: `char` (a token per character; a space is `<space>`), `byte` (a token for each of the 256 bytes of
UTF-8 and for the space, in sentencepiece's form, with which no text is unknown), `unigram` (Kudo 2018, "Subword
Regularization", arXiv:1804.10959) and `bpe` (Sennrich et al. 2016, arXiv:1508.07909) of sentencepiece, `bert`, the
tokenizer of a pretrained encoder of source text, and `whisper`, Whisper's tokenizer. A vocabulary directory holds
`tokens.txt` (one token per line: `<blank>` first, `<unk>` second, `<sos/eos>` last), `tokens.yaml` and the file of the
tokenizer: `bpe.model` for sentencepiece, `tokenizer.json` for the last two. Encoding and decoding equal ESPnet's
`CharTokenizer` or `SentencepiecesTokenizer` followed by `TokenIDConverter`.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import yaml
from sentencepiece import SentencePieceProcessor

from espnet_diverse.data.characters import clean_text
from espnet_diverse.data.files.atomic_files import check_no_file, scratch_directory
from espnet_diverse.errors import ConfigError, DataError, ModelError, abridged
from espnet_diverse.text.foreign_sentencepiece import read_model
from espnet_diverse.text.pretrained_tokenizer import FILE, PretrainedTokenizer, read_tokenizer
from espnet_diverse.text.sentencepiece_training import INPUT_SENTENCE_SIZE, byte_model, train_model
from espnet_diverse.untrusted.foreign_yaml import read_yaml, shortened
from espnet_diverse.untrusted.whole_files import read_bytes

BLANK, UNKNOWN, SPACE, SENTENCE = "<blank>", "<unk>", "<space>", "<sos/eos>"
PRETRAINED = ("bert", "whisper")
"""Types whose tokenizer is not trained here."""
_SENTENCEPIECE = ("bpe", "unigram", "byte")
TYPES = ("char", *_SENTENCEPIECE, *PRETRAINED)
MODEL_FILES = dict.fromkeys(_SENTENCEPIECE, "bpe.model") | dict.fromkeys(PRETRAINED, FILE)
"""File of the tokenizer for each type; `char` has none."""
_ESPNET_TYPES = {"char": "char", **dict.fromkeys(_SENTENCEPIECE, "bpe"), **dict.fromkeys(PRETRAINED, "hugging_face")}
_MOST_BYTES, _MOST_TOKENS = 1 << 26, 300_000
_MAKE = "make it with espnet-diverse tokens"
_STAGING = ".tokens"  # beginning of the name of the folder in which `save` makes a vocabulary


def normalise(text: str) -> str:
    """Normalise to Unicode NFC, remove invisible characters, and replace runs of white space by single spaces.

    Leading and trailing white space is removed. White space other than the space cannot be a token: ESPnet strips the
    lines of a token list in one place and not in another, so that tokens such as the no-break space (U+00A0) or the
    ideographic space (U+3000) would have two different names.
    """
    return " ".join(clean_text(text)[0].split())


@dataclass(frozen=True)
class Coverage:
    """Coverage of a text by a vocabulary.

    Attributes:
        characters: Number of characters of the text, including spaces.
        unknown: Count of each character that is not in the vocabulary, most frequent first.
    """

    characters: int
    unknown: dict[str, int]

    def __str__(self) -> str:
        unknown = sum(self.unknown.values())
        total = f"{self.characters} characters, {unknown} of them unknown ({len(self.unknown)} different)"
        listed = [f"{_describe(character)} {count}x" for character, count in self.unknown.items()]
        return f"{total}: {abridged(listed, 20)}" if listed else total


def _describe(character: str) -> str:
    shown = character if character.isprintable() else unicodedata.name(character, "unnamed")
    return f"U+{ord(character):04X} {shown}"


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    """Sort key: descending count, ties by code point."""
    return -item[1], item[0]


class Vocabulary:
    """Tokens and their indices.

    Args:
        type: One of `TYPES`.
        tokens: All tokens; `<blank>` first, `<unk>` second, `<sos/eos>` last.
        model: Content of the tokenizer's file; None for "char".

    Raises:
        ConfigError: The type is unknown.
        DataError: The special tokens are missing or misplaced, a token is repeated or empty or has white space at an
            end, or the tokens differ from the model's.
    """

    def __init__(self, type: str, tokens: Sequence[str], model: bytes | None = None):
        check_type(type)
        self.type = type
        self.tokens = tuple(tokens)
        self.model = model
        self._processor = None if type == "char" else _load_model(type, model)
        _check_tokens(self.tokens)
        if self._processor is not None and self.tokens != _tokens_of_model(self._processor):
            raise DataError(f"tokens.txt and {MODEL_FILES[type]} do not belong together; make the vocabulary again")
        self._index = {token: index for index, token in enumerate(self.tokens)}
        self._characters = {" " if token == SPACE else token: index for token, index in self._index.items()}

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def token_type(self) -> str:
        """ESPnet's name of the type: "char", "bpe" for all of sentencepiece, "hugging_face" for `PRETRAINED`."""
        return _ESPNET_TYPES[self.type]

    def tokenise(self, text: str) -> list[str]:
        """Tokens of `text`; unknown tokens are kept as text."""
        if self._processor is None:
            return [SPACE if character == " " else character for character in text]
        return self._processor.encode(text, out_type=str)

    def encode(self, text: str) -> list[int]:
        """Indices of the tokens of `text`; unknown tokens have index 1, `<unk>`."""
        if self._processor is None:
            return [self._characters.get(character, 1) for character in text]
        return [self._index.get(token, 1) for token in self.tokenise(text)]

    def decode(self, indices: Iterable[int]) -> str:
        """Text of token indices."""
        tokens = [self.tokens[index] for index in indices]
        if self._processor is None:
            return "".join(" " if token == SPACE else token for token in tokens)
        return self._processor.decode(tokens)

    def coverage(self, lines: Iterable[str]) -> Coverage:
        """Count the characters of `lines` that are not in the vocabulary."""
        characters, unknown = 0, Counter()
        for line in lines:
            characters += len(line)
            for token in self.tokenise(line):
                if token not in self._index:
                    # sentencepiece joins neighbouring unknown characters into one piece.
                    unknown.update(" " if token == SPACE else token)
        return Coverage(characters, dict(sorted(unknown.items(), key=_by_count)))

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        type: str,
        vocab_size: int | None = None,
        input_sentence_size: int = INPUT_SENTENCE_SIZE,
    ) -> "Vocabulary":
        """Train a vocabulary on the normalised `lines`; the result is deterministic.

        Args:
            lines: Texts without utterance ids.
            type: "char": all characters, by descending count, ties by code point; "bpe" or "unigram": pieces in the
                order of sentencepiece; "byte": all bytes, whatever the lines are.
            vocab_size: Number of tokens including the special ones; for "bpe" and "unigram" only.
            input_sentence_size: Number of lines that "bpe" and "unigram" are trained on, drawn at random if there are
                more; 0 for all. All characters of all lines are in the vocabulary.

        Raises:
            ConfigError: The type is unknown or one of `PRETRAINED`, or `vocab_size` does not fit the type or the text.
            DataError: The lines are empty.
        """
        check_type(type)
        if type in PRETRAINED:
            todo = "give the pretrained encoder with --bert PATH" if type == "bert" else "convert the model with adopt"
            raise ConfigError(f"type {type} is not trained on text; {todo}")
        words = (line for line in map(normalise, lines) if line)
        first = next(words, None)
        if first is None:
            raise DataError("the training text is empty; give transcripts with words")
        lines = chain([first], words)
        if type in ("char", "byte") and vocab_size is not None:
            has = "every character" if type == "char" else "every byte"
            raise ConfigError(f"vocab_size {vocab_size} is not possible with type {type}, which has {has}; omit it")
        if type == "char":
            return cls(type, _characters(lines))
        model = byte_model() if type == "byte" else train_model(lines, type, vocab_size, input_sentence_size)
        return cls(type, _tokens_of_model(_load_model(type, model)), model)

    @classmethod
    def of_bert(cls, model: str | Path) -> "Vocabulary":
        """The vocabulary of a pretrained encoder.

        Args:
            model: Folder of the encoder, or hf:owner/name.

        Raises:
            ConfigError: The encoder has no tokenizer.json.
        """
        return cls.of_tokenizer(read_tokenizer(model), "bert")

    @classmethod
    def of_tokenizer(cls, content: bytes, type: str) -> "Vocabulary":
        """The vocabulary of a tokenizer.json with this content, of one of the types `PRETRAINED`.

        Raises:
            DataError: It is not a tokenizer of Hugging Face, or has a value that is not allowed.
        """
        return cls(type, _tokens_of_model(_load_model(type, content)), content)

    def save(self, directory: str | Path) -> None:
        """Write tokens.txt, tokens.yaml and the tokenizer's file into `directory`."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        description = {"type": self.token_type, "algorithm": self.type}
        with scratch_directory(directory / "tokens") as staged:
            (staged / "tokens.txt").write_text("".join(f"{token}\n" for token in self.tokens), "utf-8", newline="\n")
            if self.model is not None:
                (staged / MODEL_FILES[self.type]).write_bytes(self.model)
            (staged / "tokens.yaml").write_text(yaml.safe_dump(description, sort_keys=False), "utf-8")
            # `load` rejects a directory without tokens.yaml. It is removed first and written last (it is last in the
            # alphabet), so that an interrupted run leaves no mixture of an old and a new vocabulary.
            files = sorted(staged.iterdir())
            try:
                for name in ("tokens.yaml", *MODEL_FILES.values()):
                    (directory / name).unlink(missing_ok=True)
                for file in files:
                    file.replace(directory / file.name)
            except KeyboardInterrupt:  # removes `staged`, by which `check_target` knows the files that a kill leaves
                for file in filter(Path.exists, files):
                    file.replace(directory / file.name)
                raise

    @classmethod
    def load(cls, directory: str | Path) -> "Vocabulary":
        """Read a directory written by `save`.

        Raises:
            DataError: A file is missing or unreadable, or the files do not belong together.
        """
        directory = Path(directory)
        try:
            _read(directory / "tokens.yaml")  # names the command that makes a missing one, which `read_yaml` does not
            type = read_yaml(directory / "tokens.yaml", "tokens.yaml", _MAKE).get("algorithm")
            check_type(type)
            tokens = _read(directory / "tokens.txt").decode("utf-8").removesuffix("\n").split("\n", _MOST_TOKENS)
            if len(tokens) > _MOST_TOKENS:
                raise DataError(f"tokens.txt has more than {_MOST_TOKENS} lines; {_MAKE}")
            return cls(type, tokens, None if type == "char" else _read(directory / MODEL_FILES[type]))
        except (UnicodeDecodeError, ConfigError, DataError, ModelError) as error:
            raise DataError(f"vocabulary {directory}: {' '.join(str(error).split())}") from error


def check_type(type: str) -> None:
    """Check the type of a vocabulary.

    Raises:
        ConfigError: It is unknown.
    """
    if type not in TYPES:
        raise ConfigError(f"unknown vocabulary type {shortened(repr(type))}; choose one of {', '.join(TYPES)}")


def check_target(directory: Path) -> None:
    """Check that a vocabulary may be written to `directory`: nothing is there, or only a former vocabulary.

    Raises:
        DataError: It is a file, or a directory with other files, or with parts of a vocabulary of another program.
    """
    check_no_file(directory)
    names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    known = {"tokens.yaml", "tokens.txt", *MODEL_FILES.values()}
    is_ours = any(name == "tokens.yaml" or name.startswith(_STAGING) for name in names)  # the latter of a killed `save`
    foreign = [name for name in names if not name.startswith(".") and not (is_ours and name in known)]
    if foreign:
        reason = f"has {foreign[0]}, which `tokens` has not written"
        raise DataError(f"{directory}: {reason}; move it away or choose another path")


def _check_tokens(tokens: tuple[str, ...]) -> None:
    if len(tokens) < 3 or tokens[:2] != (BLANK, UNKNOWN) or tokens[-1] != SENTENCE:
        raise DataError(f"the token list must begin with {BLANK} and {UNKNOWN} and end with {SENTENCE}")
    twice = [shortened(repr(token)) for token, count in Counter(tokens).items() if count > 1]
    if twice:
        raise DataError(f"token {twice[0]} is in the token list more than once; remove it from the training text")
    unsafe = [shortened(repr(token)) for token in tokens if not token or token != token.strip()]
    if unsafe:
        raise DataError(f"token {unsafe[0]} is empty or has white space at an end, which ESPnet would strip")


def _characters(lines: Iterable[str]) -> list[str]:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    ordered = sorted(counts.items(), key=_by_count)
    return [BLANK, UNKNOWN, *(SPACE if character == " " else character for character, _ in ordered), SENTENCE]


def _load_model(type: str, model: bytes | None) -> SentencePieceProcessor | PretrainedTokenizer:
    return PretrainedTokenizer(model) if type in PRETRAINED else read_model(model or b"")


def _tokens_of_model(processor: SentencePieceProcessor | PretrainedTokenizer) -> tuple[str, ...]:
    if isinstance(processor, PretrainedTokenizer):
        return (BLANK, UNKNOWN, *processor.tokens, SENTENCE)
    indices = range(processor.get_piece_size())
    pieces = [processor.id_to_piece(i) for i in indices if not (processor.is_unknown(i) or processor.is_control(i))]
    return (BLANK, UNKNOWN, *pieces, SENTENCE)


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, _MOST_BYTES)
    except OSError as error:
        raise DataError(f"{path.name} cannot be read ({error.strerror}); {_MAKE}") from error
