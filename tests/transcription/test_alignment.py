"""Word times of posteriors with known times."""

import random
from types import SimpleNamespace

import pytest
import torch
from references.posteriors import planted
from torchaudio.functional import TokenSpan

from espnet_diverse.decoding.ctc_alignment import align
from espnet_diverse.decoding.frame_times import FrameTimes
from espnet_diverse.errors import ConfigError
from espnet_diverse.transcription.alignment import align_words, check_aligns, has_word_times, split_words

FRAMES = FrameTimes(0.02, 0.04)  # as if the first frame began with the recording


def test_words_begin_and_end_where_their_tokens_do():
    path = [0, 1, 1, 0, 2, 0, 3, 0, 4, 4, 0, 0]  # "a" "b" <space> "c"
    spans = align(planted(path, 5), [1, 2, 3, 4])
    words = align_words(spans, ["a", "b", "<space>", "c"], FRAMES, 10.0, 10.48)
    assert [span.score for span in spans] == pytest.approx([0.9] * 4)
    assert [word.text for word in words] == ["ab", "c"]
    assert [time for word in words for time in (word.start, word.end)] == pytest.approx([10.04, 10.2, 10.32, 10.4])
    assert [word.confidence for word in words] == pytest.approx([0.9, 0.9])


def test_a_word_is_as_sure_as_its_tokens_in_the_mean():
    log_probs = torch.cat([planted([1, 1], 4, 0.8), planted([2], 4, 0.5), planted([0, 3], 4, 0.9)])
    spans = align(log_probs, [1, 2, 3])
    words = align_words(spans, ["▁a", "b", "▁c"], FRAMES, 0.0, 1.0)
    assert [span.score for span in spans] == pytest.approx([0.8, 0.5, 0.9])
    assert [word.confidence for word in words] == pytest.approx([0.65, 0.9])


def test_times_stay_inside_the_segment():
    frames = FrameTimes(0.0, 0.04)  # of convolutions with padding: the first and the last frame reach beyond the audio
    words = align_words(align(planted([1, 2, 3], 4), [1, 2, 3]), ["天", "地", "人"], frames, 5.0, 5.09)
    assert [time for word in words for time in (word.start, word.end)] == pytest.approx(
        [5, 5.02, 5.02, 5.06, 5.06, 5.09]
    )


def test_random_texts_have_ordered_times_and_all_their_tokens():
    random.seed(0)
    tokens = ["<blank>", "a", "ß", "<space>", "天", "。", "か", "<unk>"]
    for seed in range(100):
        torch.manual_seed(seed)
        ids = [random.randrange(1, len(tokens)) for _ in range(random.randrange(12))]
        text = [tokens[index] for index in ids]
        log_probs = (3 * torch.randn(random.randrange(24, 60), len(tokens))).log_softmax(-1)
        end = 3 + 0.04 * len(log_probs)
        spans = align(log_probs, ids)
        words = align_words(spans, text, FrameTimes(0.03, 0.04), 3.0, end)
        assert len(spans) == len(ids) and all(0 <= span.score <= 1 for span in spans)
        assert "".join(word.text for word in words) == "".join(text).replace("<space>", "")
        times = [time for word in words for time in (word.start, word.end)]
        assert times == sorted(times) and all(3 <= time <= end for time in times)
        assert all(word.start < word.end for word in words)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["h", "i", "<space>", "<space>", "y", "o", "u"], ["hi", "you"]),
        (["<space>", "a", "<space>"], ["a"]),
        (["▁he", "llo", "▁", "wor", "ld", "!"], ["hello", "world!"]),
        (["你", "好", "，", "w", "i", "f", "i", "网", "络", "。"], ["你", "好，", "wifi", "网", "络。"]),
        (["▁你好", "世界", "。", "ok"], ["你好", "世界。", "ok"]),
        (["“", "天", "”", "a"], ["“天”", "a"]),
        (["コ", "ー", "ヒ", "ー"], ["コ", "ー", "ヒ", "ー"]),
        (["𠀀", "𠀁"], ["𠀀", "𠀁"]),
        (["เ", "ย", "็", "น", "<space>", "o", "k"], ["เย็", "น", "ok"]),
        (["l", "'", "a", "m", "i"], ["l'ami"]),
        (["<unk>", "a"], ["<unk>a"]),
        ([], []),
    ],
)
def test_words_of_characters_and_of_pieces(tokens, words):
    found = split_words(tokens)
    assert [text for text, _, _ in found] == words
    for text, first, last in found:
        assert "".join(tokens[first:last]).replace("▁", "").replace("<space>", "") == text


def test_a_word_has_all_tokens_of_its_last_character():
    assert split_words(["▁ab", "", "", "▁c", "", "▁"]) == [("ab", 0, 3), ("c", 3, 5)]
    spans = [TokenSpan(1, 0, 10, 0.9), TokenSpan(2, 10, 20, 0.1), TokenSpan(3, 20, 30, 0.2)]
    (word,) = align_words(spans, ["▁ab", "", ""], FrameTimes(0.0, 0.02), 0.0, 2.0)
    assert word.end == 0.59 and word.confidence == pytest.approx(0.4)


def test_a_model_that_does_not_align_is_refused():
    check_aligns(SimpleNamespace(aligns=True))
    said = "times of words need CTC that was trained on the output text, .*; turn word_timestamps off"
    with pytest.raises(ConfigError, match=said):
        check_aligns(SimpleNamespace(aligns=False))


def test_a_model_that_does_not_align_has_no_word_times():
    assert not has_word_times(SimpleNamespace(aligns=False))


def test_characters_last_until_the_next_one_or_half_a_second():
    path = [1, 0, 0, 0, 2, *[0] * 20, 3, 0, 0, 4, 0, 0]
    tokens = ["天", "气", "好", "a"]
    words = align_words(align(planted(path, 5), [1, 2, 3, 4]), tokens, FRAMES, 0.0, 2.0)
    lengths = [word.end - word.start for word in words]
    assert lengths[:3] == pytest.approx([0.16, 0.5, 0.12]) and lengths[3] == pytest.approx(0.04)
    for end, length in ((1.25, 0.25), (2.0, 0.5)):  # the last one, to the end of the segment
        *_, last = align_words(align(planted(path[:26], 5), [1, 2, 3]), tokens[:3], FRAMES, 0.0, end)
        assert last.end - last.start == pytest.approx(length)
