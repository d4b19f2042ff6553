"""Checks of sentencepiece models from other people, before the library reads a byte of them.

sentencepiece is C++ and follows the numbers in a model without checks, so a wrong number ends the process: its
normaliser is a double-array trie whose nodes hold offsets (google/sentencepiece #1269; CVE-2026-1260), and long pieces
overflow the stack (#1263). A model is a message of protocol buffers (sentencepiece_model.proto), which is read here
with bounds. Its normaliser must be one that releases of the library contain, and its pieces must have the form that the
library writes.
"""

import hashlib
import math
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.untrusted.foreign_yaml import shortened
from espnet_diverse.untrusted.whole_files import read_bytes

MOST_BYTES = 1 << 23
MOST_PIECES = 300_000
LONGEST_PIECE = 2048
"""Bytes: the 512 characters that the library allows, of 4 bytes each."""

_TABLES = frozenset(
    {
        # 0.1.83 to 0.1.95: nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf
        "0942789e0111452f1cc446f70036e26d24458c3c7858c53cc12ca4d87531279b",
        "97331fbb9d795a02f869fd748de6fb2ee3a6ebdcac1c22cb2199cdac365ec769",
        "b69e3e8b5f89a6875ca64d03131897d7e66488dc305c6d279f3c5032954af995",
        "ccd62357d9f1e0a697a77f4f1e84d109e757ae14005b3c36c0794835b653ec71",
        # 0.1.96 to 0.2.0
        "51d3684747b35ef99cd4802f37cc1ee0c6bec4d060814f774efb1066d3c167f2",
        "557b5397b1133d8abb62f7923e5b53ee496d3e36b9f63fd42625077c33688a14",
        "6cec34e8016fd0d0a2da28b60b00e36b19a275df83786bf6b494bd033c708f83",
        "b30e4085ba1fad56d2401f4612419b6b3b42c5adc1e04f3aa1806399895d6bdd",
        # 0.2.1
        "79372c41389c2b9b29bc171017ab5400e352debd686b02670a42bec709015074",
        "52f11028ff8a7df3e009d94a8b6a54d4a8a17132efb4ccc1c9a0a41e432bd91e",
        "22c292c76f503795f30c85d79d30a7f572fff4f49e00392d2d60f4f93e941a1e",
        "60833ec11201446659c3549c183b18f024c4007628cc6b3a4e91ae007697b826",
        # 0.2.2
        "5febaab28312e9dbddb42be695c9e4380367f7ebe65121cdf894fb5d59d37eed",
        "7e46d9e08af4b6a37991b04fb8388644c1595a0abcd0f26d6a5d575e2a3663ea",
        "2df05162904a1bca9784913964d2a863d656676479f7c8bb11be49c980ea5f77",
        "d8dfef3d6db0eef0742f8b55a73aee7fce6c1e21d26a09b8d3d4b52c42a791cb",
        # 0.2.3: nmt_nfkc, nmt_nfkc_cf; the others are as in 0.2.2
        "1e2c7b43d3ee9755ceaa2ac335e253d8703604e0249ee1e81156c92b46423844",
        "2c03512e62f9ed965ec90d85314211b63b5b8aa0395311ea2147eec9ff738907",
    }
)
"""SHA-256 of the tables of the library's normalisers, by release; the table of `identity` is empty."""

_NORMALISERS = (3, 5)
"""Fields of a model; 1 is a piece, and 2 the options of the training."""
_NO_MODEL = "bpe.model is not a sentencepiece model; make the vocabulary again"
_TODO = "make the vocabulary again, or check where the file is from"
_Value = bytes | int | float | None


def read_model(content: bytes) -> SentencePieceProcessor:
    """Return the tokenizer of a model that passes `check_model`.

    Raises:
        DataError: As for `check_model`, or the library refuses the model.
    """
    check_model(content)
    try:
        return SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise DataError(_NO_MODEL) from error


def check_model_file(path: Path) -> None:
    """Refuse the file of a model that is not known to be safe; ModelError with its path where `check_model` raises."""
    try:
        check_model(read_bytes(path, MOST_BYTES))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); {_TODO}") from error
    except DataError as error:
        raise ModelError(f"{path}: {error}") from error


def check_model(content: bytes) -> None:
    """Refuse a model that is not known to be safe.

    Args:
        content: Content of the model's file.

    Raises:
        DataError: It is not a model of sentencepiece or too large, a piece is not one that the library makes, or a
            normaliser is not one of the library's own.
    """
    if len(content) > MOST_BYTES:
        raise DataError(f"bpe.model has more than {MOST_BYTES} bytes; {_TODO}")
    count = 0
    try:
        for number, value in _fields(content):
            if number == 1:
                count += 1
                _check_piece(count, dict(_fields(value)))
            elif number == 2:
                _check_training(_fields(value))
            elif number in _NORMALISERS:
                _check_normaliser(_fields(value))
    except (IndexError, TypeError):
        count = 0
    if not count:
        raise DataError(_NO_MODEL)


def _check_piece(place: int, fields: dict[int, _Value]) -> None:
    if place > MOST_PIECES:
        raise DataError(f"bpe.model has more than {MOST_PIECES} pieces; {_TODO}")
    name = f"piece {place} of bpe.model"
    text, score, kind = fields.get(1, b""), fields.get(2, 0.0), fields.get(3, 1)
    _check_text(text, name)
    if not text or 0 in text:
        raise DataError(f"{name} is {'text with a NUL' if text else 'empty'}; {_TODO}")
    if not isinstance(score, float) or not math.isfinite(score):
        raise DataError(f"{name} has score {shortened(score)}, which must be a finite number; {_TODO}")
    if not isinstance(kind, int) or not 1 <= kind <= 6:
        raise DataError(f"{name} has type {shortened(kind)}; allowed are 1 to 6; {_TODO}")


def _check_training(fields: Iterable[tuple[int, _Value]]) -> None:
    for number, value in fields:
        if number == 3 and value not in range(1, 5):
            raise DataError(f"model_type {shortened(value)} of bpe.model is not allowed; allowed are 1 to 4; {_TODO}")
        if number == 44:
            _check_text(value, "unk_surface of bpe.model")


def is_builtin_table(table: bytes) -> bool:
    """Return whether the table of a normaliser, its precompiled_charsmap, is one that the library has built in."""
    return not table or hashlib.sha256(table).hexdigest() in _TABLES


def _check_normaliser(fields: Iterable[tuple[int, _Value]]) -> None:
    for number, value in fields:
        if number == 2 and not is_builtin_table(value):
            reason = f"the precompiled_charsmap of {len(value)} bytes of bpe.model is none of the library's own"
            todo = "train the model with nmt_nfkc, nfkc or identity, or check where the file is from"
            raise DataError(f"{reason}, and can crash it; {todo}")


def _check_text(text: _Value, name: str) -> None:
    if len(text) > LONGEST_PIECE:
        raise DataError(f"{name} has {len(text)} bytes; at most {LONGEST_PIECE} are allowed; {_TODO}")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is {shortened(text)}, which is not UTF-8; {_TODO}") from error


def _fields(message: bytes) -> Iterator[tuple[int, _Value]]:
    """Number and value of each field of a message; None for a number of 8 bytes, which no field of a model is.

    Raises:
        IndexError: The message ends within a field.
        TypeError: It is no message, or has a field of a kind that no model has.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        value: _Value = None
        size = {1: 8, 5: 4}.get(wire, 0)
        if wire == 0:
            value, at = _varint(message, at)
        elif wire == 2:
            size, at = _varint(message, at)
        if wire not in (0, 1, 2, 5) or not 0 < tag < 1 << 32:
            raise TypeError(f"field {number} of wire type {wire}")
        if at + size > len(message):
            raise IndexError(f"field {number} ends beyond the message")
        if wire == 2:
            value = message[at : at + size]
        elif wire == 5:
            (value,) = struct.unpack_from("<f", message, at)
        at += size
        yield number, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the least first, of 10 bytes at most, and the place after it."""
    number = 0
    for shift in range(0, 70, 7):
        digit = message[at]
        at += 1
        number |= (digit & 127) << shift
        if digit < 128:
            return number, at
    raise IndexError("a number of more than 10 bytes")
