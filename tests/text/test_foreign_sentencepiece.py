"""Untrusted sentencepiece models: sound ones are read, anything else is refused in one line.

A model reaches sentencepiece in a process of its own, because the fault is a crash and no exception.
"""

import io
import random
from contextlib import suppress

import pytest
import sentencepiece
from references.limited import limited

from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.text.foreign_sentencepiece import check_model, check_model_file, read_model

RULES = ("identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf")
TEXTS = (
    "ab ba",
    "plain ASCII, 123",
    "ﬁ Å ｱ 한국 广州 ﷺ",
    "\u0300\u2028x\ufeff",
    "",
    "".join(map(chr, range(32, 0xD800, 3))),
)
NORMALISER = b"\x1a"  # tag of normalizer_spec, field 3
SHORT = b"\n\x01"  # of a piece: field 1, one byte


def trained(rule: str, type: str = "unigram", vocab_size: int = 8, **options) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ab ba abba", "bab aab"] * 20),
        model_writer=model,
        model_type=type,
        vocab_size=vocab_size,
        normalization_rule_name=rule,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def sound():
    """A model with the library's default normaliser, which a model of ESPnet's own recipes has."""
    return trained("nmt_nfkc")


def field(number: int, value: bytes) -> bytes:
    """A field of bytes of a message of protocol buffers."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(number: int) -> bytes:
    digits = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])


def use(model: bytes) -> None:
    """Use a model as a command does."""
    check_model(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    for index in range(processor.get_piece_size()):
        processor.id_to_piece(index)
    for text in TEXTS:
        processor.decode(processor.encode(text, out_type=str))


def damaged(model: bytes, rng: random.Random) -> bytes:
    """A model after a few or many changes of one kind."""
    changed, kind = bytearray(model), rng.randrange(4)
    for _ in range(min(rng.choice((1, 6, 300)), len(model) // 50)):
        at = rng.randrange(len(changed))
        length = rng.choice((1, 4, 16))
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at : at + length] = rng.randbytes(len(changed[at : at + length]))
        elif kind == 2:
            del changed[at : at + length]
        else:
            changed[at:at] = changed[at : at + length] * rng.choice((1, 5))
    return bytes(changed)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("type", ["bpe", "unigram"])
def test_models_with_a_normaliser_of_the_library_are_read(rule, type):
    assert limited(lambda: use(trained(rule, type)), DataError)[:2] == (0, "")


def test_models_of_other_kinds_are_read():
    names = {"user_defined_symbols": "<noise>,<laugh>", "control_symbols": "<ja>"}
    for model in (trained("nfkc", "char", **names), trained("nfkc", "word")):
        assert limited(lambda model=model: use(model), DataError)[:2] == (0, "")
    with_bytes = trained("nfkc", "bpe", vocab_size=264, byte_fallback=True)
    assert limited(lambda: use(with_bytes), DataError)[:2] == (0, "")


@pytest.mark.parametrize("at", [0, 4, 7, 1028, 100_000])
def test_four_changed_bytes_of_the_normaliser_are_refused(sound, at):
    begin = sound.index(b"nmt_nfkc\x12") + len(b"nmt_nfkc\x12") + 3  # behind the length of the table
    crafted = sound[: begin + at] + b"\x00\xff\xff\xff" + sound[begin + at + 4 :]
    outcome = limited(lambda: use(crafted), DataError)
    assert outcome.code == 1, outcome
    assert "precompiled_charsmap" in outcome.said and "\n" not in outcome.said


@pytest.mark.parametrize("number", [3, 5])
@pytest.mark.parametrize("table", [b"\x00", b"\x04\x00\x00\x00" + bytes(2000)])
def test_a_table_of_its_own_is_refused_wherever_it_is(number, table):
    model = trained("identity") + field(number, field(2, table))
    with pytest.raises(DataError, match=f"precompiled_charsmap of {len(table)} bytes"):
        check_model(model)


@pytest.mark.parametrize(
    ("piece", "said"),
    [
        (field(1, b"\xff"), "piece .* not UTF-8"),
        (field(1, b""), "piece .* empty"),
        (field(1, b"a\0b"), "piece .* NUL"),
        (field(1, b"c" * 200_000), "piece .* 200000 bytes.* 2048"),
        (field(1, b"c") + b"\x15\x00\x00\xc0\x7f", "piece .* score nan"),
        (field(1, b"c") + b"\x18\x09", "piece .* type 9"),
        (b"", "piece .* empty"),
    ],
)
def test_a_piece_that_the_library_does_not_make_is_refused(sound, piece, said):
    with pytest.raises(DataError, match=said) as raised:
        check_model(sound + field(1, piece))
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (field(2, b"\x18\x07"), "model_type 7"),
        (field(2, field(44, b"\xff")), "unk_surface .* not UTF-8"),
        (b"\x08\x01", "not a sentencepiece model"),  # a piece that is a number
        (b"\x0b", "not a sentencepiece model"),  # a group
        (b"\x0a\x7f", "not a sentencepiece model"),  # a piece beyond the end
        (b"\x8a\x80\x80\x80\x10" + field(3, b"x"), "not a sentencepiece model"),  # a tag of more than 32 bits
        (field(1, field(1, b"c")) * 400_000, "more than 300000 pieces"),
        (field(200, bytes(1 << 23)), "has more than 8388608 bytes"),
    ],
)
def test_malformed_and_oversized_models_are_refused(sound, more, said):
    with pytest.raises(DataError, match=said):
        check_model(sound + more)


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"\x00", b"\xff" * 11])
def test_content_without_pieces_is_refused(content):
    with pytest.raises(DataError, match="not a sentencepiece model"):
        check_model(content)


def test_a_model_that_the_library_refuses_is_none(tmp_path):
    with pytest.raises(DataError, match="^bpe.model is not a sentencepiece model; make the vocabulary again$"):
        read_model(field(1, field(1, b"a")))  # without <unk>


@pytest.mark.parametrize(("content", "said"), [(None, "cannot be read .No such file"), (b"", "is not a sentencepiece")])
def test_errors_of_a_file_have_its_path(tmp_path, content, said):
    path = tmp_path / "bpe.model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=f"^{path}: .*{said}"):
        check_model_file(path)


def use_all(models: list[bytes]) -> None:
    """Use each model; RuntimeError is the library's own refusal, of which `read_model` makes ours."""
    for model in models:
        with suppress(DataError, RuntimeError):
            use(model)


@pytest.mark.parametrize(("type", "rule"), [("unigram", "nmt_nfkc"), ("bpe", "identity"), ("unigram", "identity")])
def test_damaged_models_crash_nothing(type, rule):
    model, rng = trained(rule, type), random.Random(0)
    for _ in range(5):
        models = [damaged(model, rng) for _ in range(20)]
        outcome = limited(lambda models=models: use_all(models), DataError)
        assert outcome.code == 0, outcome
