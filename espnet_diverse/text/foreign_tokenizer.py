"""Checks of a tokenizer.json from other people, before the library reads a byte of it.

The library is Rust and ends the process where memory is too small, as by a replacement of a million letters, and panics
or runs for ever with some regular expressions and tables of characters. So only those of the tokenizers that this
package reads are allowed, and texts have a greatest length.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

from espnet_diverse.errors import DataError
from espnet_diverse.text.foreign_sentencepiece import LONGEST_PIECE, MOST_PIECES, is_builtin_table
from espnet_diverse.untrusted.foreign_yaml import shortened

FILE = "tokenizer.json"
MOST_BYTES = 1 << 26
_MOST_MERGES = 4 * MOST_PIECES
_PATTERNS = (" {2,}", r"\s+")
"""Regular expressions of the tokenizers of albert, camembert and xlm-roberta; the others have none."""
_TABLE, _REGEX = "precompiled_charsmap", "Regex"
_DEEPEST = 20
_SHOWN = 50  # characters of a key
_TODO = "write it again with save_pretrained of the model's AutoTokenizer, or check where the file is from"


def read_content(content: bytes) -> dict:
    """Return the content of a tokenizer.json that is known to be safe.

    Raises:
        DataError: It is no JSON, too large, or has a value that is not allowed; the message names it.
    """
    if len(content) > MOST_BYTES:
        raise _wrong(f"has more than {MOST_BYTES} bytes")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _wrong("is not a file of JSON") from error
    model = data.get("model") if isinstance(data, dict) else None
    if not isinstance(model, dict):
        raise _wrong("is not a tokenizer of Hugging Face")
    _check_sizes(model)
    for place, value in _values(data, "", _DEEPEST):
        _check_value(place, value)
    return data


def _check_sizes(model: dict) -> None:
    """Check the vocabulary and its token or number for unknown tokens."""
    vocabulary, merges = model.get("vocab"), model.get("merges", [])
    if not isinstance(vocabulary, dict | list) or not 0 < len(vocabulary) <= MOST_PIECES:
        raise _wrong(f"has no vocabulary of 1 to {MOST_PIECES} tokens")
    if not isinstance(merges, list) or len(merges) > _MOST_MERGES:
        raise _wrong(f"has no list of at most {_MOST_MERGES} merges")
    index, token = model.get("unk_id"), model.get("unk_token")
    if index is not None and (type(index) is not int or not 0 <= index < len(vocabulary)):
        raise _wrong(f"has unk_id {shortened(index)}, which must be the number of one of {len(vocabulary)} tokens")
    if token is not None and not (isinstance(token, str) and (isinstance(vocabulary, list) or token in vocabulary)):
        raise _wrong(f"has unk_token {shortened(ascii(token))}, which must be a token of the vocabulary")


def _check_value(place: str, value: Any) -> None:
    """Check a text or a number of any part."""
    if place.endswith(_TABLE) and isinstance(value, str):
        if not is_builtin_table(_decoded(value)):
            raise _wrong(f"has at {place} a table that is none of sentencepiece's own")
    elif place.endswith(_REGEX) and value not in _PATTERNS:
        raise _wrong(f"has at {place} {shortened(ascii(value))}; allowed are {' and '.join(map(repr, _PATTERNS))}")
    elif isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) > LONGEST_PIECE:
        raise _wrong(f"has at {place} a text of {len(value)} characters; at most {LONGEST_PIECE} bytes are allowed")


def _decoded(table: str) -> bytes:
    try:
        return base64.b64decode(table, validate=True)
    except ValueError as error:
        raise _wrong(f"has a {_TABLE} that is not in base64") from error


def _values(node: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Each value that has no parts, with its place; keys are values too."""
    if not isinstance(node, dict | list):
        yield place, node
        return
    if not depth:
        raise _wrong(f"is nested deeper than {_DEEPEST} at {place}")
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in pairs:
        if isinstance(key, str):
            yield f"a key of {place}", key
        name = ascii(key)[:_SHOWN] if isinstance(key, str) and not key.isidentifier() else key
        yield from _values(value, f"{place}.{name}" if place else str(name), depth - 1)


def _wrong(reason: str) -> DataError:
    return DataError(f"{FILE} {reason}; {_TODO}")
