"""Training of sentencepiece on all sentences or a sample of them, against sentencepiece itself."""

import io
import random

import pytest
import sentencepiece
from references.traced import traced

from espnet_diverse.errors import ConfigError
from espnet_diverse.text.sentencepiece_training import train_model

TYPES = ("bpe", "unigram")


@pytest.fixture(scope="module")
def sentences():
    pick = random.Random(1)
    words = ["".join(pick.choices("abcdeéßñ", k=pick.randint(1, 5))) for _ in range(50)]
    return [" ".join(pick.choices(words, k=pick.randint(1, 8))) for _ in range(400)]


@pytest.fixture
def trained_on(monkeypatch):
    """The sentences that sentencepiece gets, instead of a training."""
    found = []
    monkeypatch.setattr(
        sentencepiece.SentencePieceTrainer, "train", lambda sentence_iterator, **_: found.extend(sentence_iterator)
    )
    return found


@pytest.mark.parametrize("size", [0, 400, 10**6])
@pytest.mark.parametrize("type", TYPES)
def test_up_to_the_limit_the_model_matches_all_sentences(type, size, sentences, caplog):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type=type,
        vocab_size=40,
        character_coverage=1.0,
        normalization_rule_name="identity",
        max_sentence_length=1 << 30,
        minloglevel=2,
    )
    assert train_model(iter(sentences), type, 40, size) == model.getvalue()
    assert not caplog.records


@pytest.mark.parametrize("type", TYPES)
def test_a_sample_gives_the_same_model_each_time_and_another_than_all(type, sentences, caplog):
    first, second = (train_model(iter(sentences), type, 40, 300) for _ in range(2))
    assert first == second != train_model(sentences, type, 40, 0)
    assert caplog.messages[0] == (
        "notice: tokens are learned from a random sample of 300 of 400 sentences, and have all their characters; "
        "--input_sentence_size sets the number, 0 for all"
    )


@pytest.mark.parametrize("type", TYPES)
def test_characters_outside_the_sample_have_tokens(type, sentences):
    strange = ["漢▁字", "⁇ \U0001f600", 'x,y"z']
    model = train_model([*sentences, *strange], type, 35, 50)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    for line in [*sentences, *strange]:
        assert processor.unk_id() not in processor.encode(line)


def test_the_sample_is_spread_evenly(trained_on):
    train_model((f"0123456789 {number:05d}" for number in range(100_000)), "bpe", 9, 10_000)
    tenths = [int(line.split()[1]) // 10_000 for line in trained_on]
    assert len(set(trained_on)) == len(trained_on) == 10_000
    assert all(900 < tenths.count(tenth) < 1100 for tenth in range(10))


def test_memory_matches_the_sample(trained_on):
    lines = (f"0123456789 {number:06d} " + "abc" * 60 for number in range(100_000))  # 24 MB as strings
    _, taken = traced(train_model, lines, "bpe", 9, 1000)
    assert len(trained_on) == 1000 and taken < 1_000_000


@pytest.mark.parametrize("size, message", [(-1, "input_sentence_size -1 is not possible; give a number, or 0 for all")])
def test_numbers_that_are_refused(size, message, sentences):
    with pytest.raises(ConfigError, match=message):
        train_model(sentences, "bpe", 50, size)


@pytest.mark.parametrize("size", [10, 1000])  # one that fits the lines before the interrupt, and one that does not
@pytest.mark.parametrize("input_sentence_size", [0, 10**6])
def test_an_interrupt_between_the_lines_is_not_their_end(size, input_sentence_size):
    def lines():
        yield from ["ab abc", "abcd dab"] * 9
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_model(lines(), "unigram", size, input_sentence_size)
