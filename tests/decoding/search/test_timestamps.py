"""Whisper's rules for times in a search, and the parts of a text between times."""

import pytest
import torch

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.search.sampling import SamplingSearch
from espnet_diverse.decoding.search.timestamps import TimestampRules, check_timed, parts_between
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.whisper.decoder import DiverseWhisperDecoder

WORDS, TIMES, END = range(10), range(10, 80), 80
PROMPT = {"start": 7, "no_timestamps": 9}


def allowed(*texts, scores=None):
    """Indices of the tokens that may follow each text, all of one length."""
    rules = TimestampRules(TIMES, torch.zeros(1, len(texts), dtype=torch.long))
    for tokens in zip(*texts, strict=True):
        rules.read(torch.tensor([tokens]))
    given = torch.zeros(1, len(texts), END + 1) if scores is None else scores.expand(1, len(texts), -1).clone()
    return [(row > -torch.inf).nonzero().flatten().tolist() for row in rules.apply(given)[0]]


def at(second):
    return TIMES.start + round(50 * second)


SPOKEN = torch.zeros(END + 1)
SPOKEN[:10] = SPOKEN[END] = 9.0  # more than all times


def test_a_text_begins_with_a_time_of_the_first_second():
    assert allowed((), scores=SPOKEN) == [list(range(at(0), at(1) + 1))]


def test_a_part_begins_and_ends_with_a_time():
    after_begin, within, after_end = allowed((at(0.1), 1, 2), (1, at(0.1), 3), (at(0.1), 3, at(0.5)), scores=SPOKEN)
    assert after_begin == within == [*WORDS, *range(at(0.1) + 1, TIMES.stop), END]
    assert after_end == [*range(at(0.5), TIMES.stop), END]
    (again,) = allowed((at(0.1), 3, at(0.5), at(0.5)), scores=SPOKEN)
    assert again == [*WORDS, END]
    assert allowed((at(0.1),), scores=SPOKEN) == [[*WORDS, END]]


def test_a_time_follows_where_all_times_are_likelier_than_any_token():
    scores = torch.zeros(END + 1)
    scores[3] = 4.0  # less than the sum of 64 times, and more than each
    later = list(range(at(0.1) + 1, TIMES.stop))
    assert allowed((at(0.1), 1), scores=scores) == [later]
    scores[3] = 4.2
    assert allowed((at(0.1), 1), scores=scores) == [[*WORDS, *later, END]]
    scores[3], scores[END] = 0.0, 4.2
    assert allowed((at(0.1), 1), scores=scores) == [[*WORDS, *later, END]]


def test_hypotheses_keep_their_times_as_the_beam_changes():
    rules = TimestampRules(TIMES, torch.zeros(2, 1, dtype=torch.long))
    rules.read(torch.tensor([[at(0.1)], [at(0.2)]]))
    rules.extend(torch.tensor([[0, 0], [0, 0]]))
    rules.read(torch.tensor([[1, 2], [at(0.3), 2]]))
    rules.extend(torch.tensor([[1, 0], [1, 0]]))
    rules.keep(torch.tensor([1]))
    assert rules.last.tolist() == [[at(0.2) - at(0), at(0.3) - at(0)]] and rules.pair.tolist() == [[0, 3]]


def decoder(seed):
    torch.manual_seed(seed)
    sizes = {"attention_heads": 2, "linear_units": 32, "num_blocks": 2, "max_positions": 40}
    made = DiverseWhisperDecoder(END + 1, 16, PROMPT, suppress=[0, 7, 9, *TIMES], **sizes).eval()
    with torch.no_grad():
        made.output_layer.weight[:10] *= 0.8  # texts have several times
    return made


def check(tokens):
    """Whether tokens keep the rules, one by one as they are read."""
    last, pair = TIMES.start, 1
    for place, token in enumerate(tokens):
        is_time = token in TIMES
        assert is_time or place
        assert token not in (0, 7, 9) and not (is_time and pair == 2) and (is_time or pair != 1)
        if is_time:
            assert token >= last + (pair == 0) and (place or token <= at(1))
            last = token
        pair = min(pair + 1, 2) if is_time else 0


@pytest.mark.parametrize("beam_size", [1, 4])
def test_batches_find_the_texts_of_each_utterance_alone(beam_size):
    search = BeamSearch(decoder(1), None, END)
    options = SearchOptions(beam_size=beam_size, ctc_weight=0.0, lm_weight=0.0, nbest=beam_size, maxlenratio=-18)
    source, lengths = torch.randn(4, 12, 16, generator=torch.Generator().manual_seed(1)), torch.tensor([12, 5, 9, 7])
    found = search(source, lengths, options, timed=True)
    for row, length in enumerate(lengths.tolist()):
        (alone,) = search(source[row : row + 1, :length], lengths[row : row + 1], options, timed=True)
        assert [each.tokens for each in alone] == [each.tokens for each in found[row]]
        assert [each.score for each in alone] == pytest.approx([each.score for each in found[row]], abs=1e-4)
        for each in alone:
            check(each.tokens)
    assert any(sum(token in TIMES for token in each.tokens) > 2 for best in found for each in best)
    (plain,) = search(source[:1], lengths[:1], options)
    assert not set(plain[0].tokens) & set(TIMES)


def test_draws_keep_the_rules():
    options = SearchOptions(search="sampling", ctc_weight=0.0, nbest=5, maxlenratio=-12)
    source, lengths = torch.randn(3, 12, 16, generator=torch.Generator().manual_seed(1)), torch.tensor([12, 5, 9])
    found = SamplingSearch(decoder(0), END)(source, lengths, options, [*source.numpy()], timed=True)
    for each in (each for best in found for each in best):
        check(each.tokens)


@pytest.mark.parametrize(
    ("tokens", "parts", "passed"),
    [
        ([], [], 1.3),
        ([at(0.1), 1, 2, at(0.5)], [(0.1, 0.5, [1, 2])], 1.3),
        ([at(0.1), 1, 2], [(0.1, 1.3, [1, 2])], 1.3),
        ([at(0.1), 1, at(0.5), at(0.6), 2, at(1.2)], [(0.1, 0.5, [1]), (0.6, 1.2, [2])], 1.3),
        ([at(0.1), 1, at(0.5), at(0.6), 2], [(0.1, 0.5, [1])], 0.5),
        ([at(0.1), 1, at(0.5), at(0.6)], [(0.1, 0.5, [1])], 0.5),
        ([at(0.1), 1, at(0.5), at(0.5), 2, at(0.7), at(0.8), 3], [(0.1, 0.5, [1]), (0.5, 0.7, [2])], 0.7),
        ([at(0.1), 1, at(1.36)], [(0.1, 1.3, [1])], 1.3),
        ([at(0.1), at(0.2)], [], 0.1),
    ],
)
def test_parts_and_the_begin_of_the_next_window(tokens, parts, passed):
    assert parts_between(tokens, TIMES, 1.3) == (parts, passed)


def test_what_knows_no_times_is_refused():
    options = SearchOptions(ctc_weight=0.0, lm_weight=0.0)
    check_timed(TIMES, options, False)
    for times, given, words, named in (
        (range(0), options, False, "writes no times"),
        (TIMES, SearchOptions(ctc_weight=0.3), False, "set ctc_weight=0"),
        (TIMES, SearchOptions(search="greedy", ctc_weight=0.0), False, "search=batched"),
        (TIMES, SearchOptions(ctc_weight=0.0, lm_weight=0.3), False, "language model"),
        (TIMES, options, True, "word_timestamps is not possible"),
    ):
        with pytest.raises(ConfigError, match=named):
            check_timed(times, given, words)
