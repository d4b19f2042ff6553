"""Vocabularies: their tokens, round trips through files, and agreement with ESPnet's tokenizers."""

import random
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
import sentencepiece
import yaml
from espnet2.text.char_tokenizer import CharTokenizer
from espnet2.text.sentencepiece_tokenizer import SentencepiecesTokenizer
from espnet2.text.token_id_converter import TokenIDConverter
from references.traced import traced

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.text.vocabulary import Vocabulary, check_target, normalise

NAMES = ["bpe.model", "tokens.txt", "tokens.yaml"]

CHINESE = ["广州市房地产中介", "广州的房价", "今天天气很好"]
PIECES = [("bpe", 50), ("unigram", 50)]
ALL = [("char", None), ("byte", None), *PIECES]


@pytest.fixture(scope="module")
def sentences():
    pick = random.Random(1)
    words = ["".join(pick.choices("abcdeéßñ", k=pick.randint(1, 5))) for _ in range(50)]
    return [" ".join(pick.choices(words, k=pick.randint(1, 8))) for _ in range(200)]


def token_file(vocabulary, tmp_path):
    vocabulary.save(tmp_path)
    return (tmp_path / "tokens.txt").read_text(encoding="utf-8").split("\n")[:-1]


def test_characters_by_frequency_then_code_point_between_the_special_tokens(tmp_path):
    vocabulary = Vocabulary.train(["cab a", "b"], "char")
    assert token_file(vocabulary, tmp_path) == ["<blank>", "<unk>", "a", "b", "<space>", "c", "<sos/eos>"]
    assert len(vocabulary) == 7


def test_chinese_characters_need_no_space_token(tmp_path):
    vocabulary = Vocabulary.train(CHINESE, "char")
    assert "<space>" not in vocabulary.tokens
    assert vocabulary.decode(vocabulary.encode(CHINESE[0])) == CHINESE[0]


@pytest.mark.parametrize("type, size", PIECES)
def test_sentencepiece_vocabulary_has_exactly_the_size_asked_for(type, size, sentences, tmp_path):
    vocabulary = Vocabulary.train(sentences, type, size)
    assert len(token_file(vocabulary, tmp_path)) == len(vocabulary) == size
    assert vocabulary.token_type == "bpe"
    assert yaml.safe_load((tmp_path / "tokens.yaml").read_text()) == {"type": "bpe", "algorithm": type}


@pytest.mark.parametrize("type, size", ALL)
def test_training_twice_gives_the_same_bytes(type, size, sentences, tmp_path):
    for name in ("a", "b"):
        Vocabulary.train(iter(sentences), type, size).save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == (NAMES if type != "char" else NAMES[1:])
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("type, size", ALL)
def test_equals_espnet_tokenizer_and_converter(type, size, sentences, tmp_path):
    Vocabulary.train(sentences, type, size).save(tmp_path)
    vocabulary = Vocabulary.load(tmp_path)
    converter = TokenIDConverter(tmp_path / "tokens.txt")
    tokenizer = CharTokenizer() if type == "char" else SentencepiecesTokenizer(tmp_path / "bpe.model")
    assert tuple(converter.token_list) == vocabulary.tokens
    for line in [*sentences, "unseen 漢字 XYZ", "  two  spaces ", "a", "", "<unk> <blank>"]:
        indices = converter.tokens2ids(tokenizer.text2tokens(line))
        assert vocabulary.encode(line) == indices
        assert vocabulary.decode(indices) == tokenizer.tokens2text(converter.ids2tokens(indices))


@pytest.mark.parametrize("type, size", ALL)
def test_known_text_survives_encoding_and_decoding(type, size, sentences):
    vocabulary = Vocabulary.train(sentences, type, size)
    assert [vocabulary.decode(vocabulary.encode(line)) for line in sentences] == sentences


def test_chinese_punctuation_is_kept_by_sentencepiece():
    line = "你好，世界！１２"
    vocabulary = Vocabulary.train([line] * 3, "bpe", 14)
    assert vocabulary.decode(vocabulary.encode(line)) == line


def test_lines_longer_than_sentencepiece_reads_by_default_are_used():
    vocabulary = Vocabulary.train(["ab " * 3000 + "z", "ab"], "bpe", 8)
    assert vocabulary.coverage(["z"]).unknown == {}


def test_normalise_leaves_no_character_that_espnet_would_strip():
    everything = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    for character in everything:
        text = normalise(f"a{character}")
        assert text.rstrip() == text
        assert not any(c.isspace() and c != " " for c in text)
        assert unicodedata.is_normalized("NFC", text)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("\u3000广州\xa0市 ", "广州 市"),
        ("\ufeffa\u200bb\u2060c\u00add", "abcd"),
        ("\u202bשלום\u202c\u200f", "שלום"),
        ("e\u200b\u0301\t\r\n x", "é x"),
        (" \u2028 ", ""),
    ],
)
def test_normalise(text, expected):
    assert normalise(text) == expected
    assert normalise(expected) == expected


@pytest.mark.parametrize("type, size", [("char", None), ("bpe", 11), ("unigram", 11)])
def test_odd_spaces_give_no_token_that_espnet_would_strip(type, size, tmp_path):
    lines = ["ab\xa0cd\u3000ef", "a\u200bb ef\u2028", "ab cd"]
    vocabulary = Vocabulary.train(lines, type, size)
    assert token_file(vocabulary, tmp_path) == [token.rstrip() for token in vocabulary.tokens]


@pytest.mark.parametrize("type, size", [("char", None), ("unigram", 8)])
def test_coverage_counts_unknown_characters(type, size):
    vocabulary = Vocabulary.train(["abab", "ab ba"] * 5, type, size)
    coverage = vocabulary.coverage(["axy", "xa b\xa0"])
    assert coverage.characters == 8
    assert list(coverage.unknown.items()) == [("x", 2), ("y", 1), ("\xa0", 1)]
    assert str(coverage) == (
        "8 characters, 4 of them unknown (3 different): U+0078 x 2x, U+0079 y 1x, U+00A0 NO-BREAK SPACE 1x"
    )


def test_coverage_of_spaces_by_a_vocabulary_without_them():
    assert Vocabulary.train(["ab"], "char").coverage(["a b"]).unknown == {" ": 1}


def test_coverage_shows_twenty_characters_at_most():
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 21)))
    report = str(Vocabulary.train(["a"], "char").coverage([text]))
    assert report.endswith("U+4E13 专 1x and 1 more")
    assert str(Vocabulary.train(["a"], "char").coverage(["a"])) == "1 characters, 0 of them unknown (0 different)"


@pytest.mark.parametrize("type, size", ALL)
def test_saving_over_another_vocabulary_leaves_nothing_of_it(type, size, sentences, tmp_path):
    Vocabulary.train(sentences, "unigram", 40).save(tmp_path)
    vocabulary = Vocabulary.train(sentences, type, size)
    vocabulary.save(tmp_path)
    assert Vocabulary.load(tmp_path).tokens == vocabulary.tokens
    assert (tmp_path / "bpe.model").exists() == (type != "char")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("method", "name"),
    [("unlink", "tokens.yaml"), ("unlink", "bpe.model"), *(("replace", name) for name in NAMES)],
)
def test_an_interrupt_while_files_are_replaced_leaves_the_new_vocabulary(method, name, tmp_path, monkeypatch):
    Vocabulary.train(["abc"], "char").save(tmp_path)
    new, change, reached = Vocabulary.train(["ab ba"], "bpe", 8), getattr(Path, method), []

    def interrupted(path, *given, **options):
        change(path, *given, **options)
        if path.name == name and not reached:
            reached.append(path)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, method, interrupted)
        with pytest.raises(KeyboardInterrupt):
            new.save(tmp_path)
    check_target(tmp_path)
    assert Vocabulary.load(tmp_path).tokens == new.tokens
    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES


@pytest.mark.parametrize("type", ["bpe", "unigram"])
def test_the_maximum_named_for_a_too_large_vocabulary_works(type, sentences):
    with pytest.raises(ConfigError, match=r"vocab_size 5000 is too large for this text; the maximum is \d+$") as raised:
        Vocabulary.train(sentences, type, 5000)
    maximum = int(str(raised.value).split()[-1])
    assert len(Vocabulary.train(sentences, type, maximum)) == maximum
    with pytest.raises(ConfigError, match=f"the maximum is {maximum}$"):
        Vocabulary.train(sentences, type, maximum + 1)


@pytest.mark.parametrize("type", ["bpe", "unigram"])
def test_the_minimum_named_for_a_too_small_vocabulary_works(type, sentences):
    with pytest.raises(ConfigError, match=r"vocab_size 5 is too small .*; the minimum is 12$"):
        Vocabulary.train(sentences, type, 5)
    assert len(Vocabulary.train(sentences, type, 12)) == 12


@pytest.mark.parametrize("size", [None, 0, -3, 10**20])
def test_sentencepiece_needs_a_size(size, sentences):
    with pytest.raises(ConfigError, match=f"vocab_size is {size}; type bpe needs a number of tokens, for example 500"):
        Vocabulary.train(sentences, "bpe", size)


def test_other_errors_of_sentencepiece_are_one_line(monkeypatch):
    def fail(**options):
        raise RuntimeError("Internal: src/x.cc(1)\n[broken] ")

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", fail)
    with pytest.raises(ConfigError, match=r"^sentencepiece cannot make a vocabulary of 50 tokens: .*\(1\) \[broken\]$"):
        Vocabulary.train(["a"], "bpe", 50)


@pytest.mark.parametrize(("type", "has"), [("char", "character"), ("byte", "byte")])
def test_a_size_where_there_is_one_only_is_refused(type, has):
    with pytest.raises(ConfigError, match=f"vocab_size 50 is not possible with type {type}, which has every {has}"):
        Vocabulary.train(["a"], type, 50)


def test_bytes_have_every_text():
    vocabulary = Vocabulary.train(["a"], "byte")
    assert len(vocabulary) == 3 + 256 + 1 and not vocabulary.coverage(["µ 我 \U0001f600"]).unknown
    for text in ("grüße an alle", "我们 a", "ab", "\U0001f600\u0301"):
        tokens = vocabulary.tokenise(text)
        assert tokens == ["▁" if byte == 0x20 else f"<0x{byte:02X}>" for byte in text.encode()]
        assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.decode(vocabulary.encode("ü")[:1]) == "\ufffd"  # half of a character


def test_an_unknown_type_lists_the_known_ones():
    with pytest.raises(ConfigError, match="unknown vocabulary type 'word'; choose one of char, bpe, unigram"):
        Vocabulary.train(["a"], "word")


@pytest.mark.parametrize("lines", [[], ["", "\u3000"]])
def test_text_without_characters(lines):
    with pytest.raises(DataError, match="the training text is empty; give transcripts with words"):
        Vocabulary.train(lines, "char")


@pytest.mark.parametrize("token", ["<a>", "<blank>", "<unk>", "<sos/eos>"])
def test_a_token_that_is_there_twice_or_a_reserved_symbol_as_a_piece_is_refused(token):
    with pytest.raises(DataError, match=f"token '{token}' is in the token list more than once"):
        Vocabulary("char", ["<blank>", "<unk>", "<a>", token, "<sos/eos>"])


def replace(path, old, new):
    path.write_bytes(path.read_bytes().replace(old, new))


def replace_by_link(path, target):
    path.unlink()
    path.symlink_to(target)


BOMB = "".join(f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefghi"))
BOMB = f"a: &a [x]\n{BOMB}algorithm: *i\n"


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda d: (d / "tokens.yaml").unlink(), r"tokens.yaml cannot be read \(No such file .*make it with"),
        (lambda d: (d / "tokens.txt").unlink(), r"tokens.txt cannot be read \(No such file"),
        (lambda d: (d / "bpe.model").unlink(), r"bpe.model cannot be read \(No such file"),
        (lambda d: (d / "bpe.model").write_bytes(b""), "bpe.model is not a sentencepiece model; make"),
        (lambda d: (d / "bpe.model").write_bytes(b"garbage" * 9), "bpe.model is not a sentencepiece model; make"),
        (lambda d: replace(d / "tokens.txt", b"<blank>\n", b""), "must begin with <blank> and <unk> and end with"),
        (lambda d: replace(d / "tokens.txt", b"<sos/eos>\n", b""), "must begin with <blank> and <unk> and end with"),
        (lambda d: (d / "tokens.txt").write_bytes(b""), "must begin with <blank> and <unk> and end with"),
        (lambda d: replace(d / "tokens.txt", b"\n<sos", b"\nnew\n<sos"), "tokens.txt and bpe.model do not belong"),
        (lambda d: replace(d / "tokens.txt", b"\n<sos", b"\n\n<sos"), "token '' is empty or has white space"),
        (lambda d: replace(d / "tokens.txt", b"\n<sos", "\nx\xa0\n<sos".encode()), r"token 'x\\xa0' is empty or has"),
        (lambda d: replace(d / "tokens.txt", b"\n<sos", b"\n\xff\n<sos"), "utf-8.*can't decode byte 0xff"),
        (lambda d: replace(d / "tokens.yaml", b"algorithm: bpe", b"algorithm: word"), "unknown vocabulary type 'word'"),
        (lambda d: (d / "tokens.yaml").write_bytes(b"- 1"), "tokens.yaml contains a list, not a mapping; make it with"),
        (lambda d: (d / "tokens.yaml").write_bytes(b"a: 1"), "unknown vocabulary type None"),
        (lambda d: (d / "tokens.yaml").write_text(BOMB), "tokens.yaml is not valid YAML .*more than 200000 values"),
        (
            lambda d: (d / "tokens.yaml").write_text("algorithm: " + "x" * 10**5),
            r"unknown vocabulary type 'x{196}\.\.\.",
        ),
        (
            lambda d: (d / "tokens.yaml").write_bytes(b"a: 1" + b":1" * 10**5),
            "is not valid YAML .*a number of 200001 dig",
        ),
        (lambda d: (d / "tokens.txt").write_bytes(b"a\n" * 400_000), "tokens.txt has more than 300000 lines"),
        (lambda d: replace_by_link(d / "tokens.txt", "/dev/zero"), r"tokens.txt cannot be read \(not a regular file\)"),
        (lambda d: (d / "tokens.yaml").write_bytes(b"a: [\nb"), r"tokens.yaml is not valid YAML \(.* in line 3\)"),
        (lambda d: (d / "tokens.yaml").write_bytes(b"a: 2020-99-99"), "is not valid YAML .*month must be in 1..12"),
        (lambda d: (d / "tokens.yaml").write_bytes(b"a: !!bool x"), "is not valid YAML .*value does not fit its tag"),
        (lambda d: (d / "tokens.yaml").write_bytes(b"[" * 5000), r"tokens.yaml is not valid YAML \("),
    ],
)
def test_a_damaged_directory_is_refused_in_one_line(damage, message, sentences, tmp_path):
    Vocabulary.train(sentences, "bpe", 30).save(tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError, match=message) as raised:
        Vocabulary.load(tmp_path)
    assert str(raised.value).startswith(f"vocabulary {tmp_path}: ")
    assert "\n" not in str(raised.value)


def test_characters_are_counted_line_by_line():
    lines = ("ab c" * 500 for _ in range(1_000))  # two million characters
    vocabulary, taken = traced(Vocabulary.train, lines, "char")
    assert vocabulary.tokens[2:-1] == ("<space>", "a", "b", "c") and taken < 200_000


def test_characters_are_encoded_as_tokens_are():
    vocabulary = Vocabulary.train(["ab c"], "char")
    for text in ("", "a b", "cab", "x y", "<unk>", "<space>"):
        assert vocabulary.encode(text) == [
            vocabulary.tokens.index(token) if token in vocabulary.tokens else 1 for token in vocabulary.tokenise(text)
        ]
