"""Contents of a tokenizer.json that do not reach the library; tests/trust/test_hostile_values.py has many more."""

import json

import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.text import foreign_tokenizer
from espnet_diverse.text.foreign_tokenizer import read_content

MODEL = {"type": "WordPiece", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}


def test_a_tokenizer_of_the_known_form_is_read():
    content = {"model": MODEL, "normalizer": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}}
    assert read_content(json.dumps(content).encode()) == content


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocab": {}}, "has no vocabulary of 1 to 300000 tokens"),
        ({"merges": "a b"}, "has no list of at most 1200000 merges"),
        ({"unk_id": 2}, "has unk_id 2, which must be the number of one of 2 tokens"),
        ({"unk_id": True}, "has unk_id True, which must be"),
        ({"unk_token": "c"}, "has unk_token 'c', which must be a token of the vocabulary"),
        ({"prefix": "a" * 3000}, "has at model.prefix a text of 3000 characters; at most 2048 bytes are allowed"),
    ],
)
def test_a_wrong_model_is_refused(changes, said):
    with pytest.raises(DataError, match=f"^tokenizer.json {said}.*; write it again with save_pretrained"):
        read_content(json.dumps({"model": MODEL | changes}).encode())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is not a file of JSON"),
        (b"[" * 100_000, "is not a file of JSON"),
        (b"\xff", "is not a file of JSON"),
        (b"[]", "is not a tokenizer of Hugging Face"),
        (b" " * 101, "has more than 100 bytes"),
    ],
)
def test_malformed_and_oversized_files_are_refused(monkeypatch, content, said):
    monkeypatch.setattr(foreign_tokenizer, "MOST_BYTES", 100 if content.isspace() else 1 << 20)
    with pytest.raises(DataError, match=f"^tokenizer.json {said}; write it again"):
        read_content(content)
