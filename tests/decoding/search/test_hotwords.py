"""The bonus of hotwords: along sequences, and read from a file."""

import itertools

import pytest
import torch
from decoding.search.test_beam_search import batched, options

from espnet_diverse.decoding.search import beam_search
from espnet_diverse.decoding.search.hotwords import HotwordScorer, read_hotwords, split_prompt
from espnet_diverse.errors import DataError

V, EOS = 8, 7


def totals(phrases, sequences):
    """Sum of the bonus of the tokens and of <eos>, for each of some sequences of one length."""
    ended = torch.nn.functional.pad(torch.tensor(sequences, dtype=torch.long), (1, 1), value=EOS)
    scorer, gained = HotwordScorer(phrases, V), torch.zeros(len(sequences), 1)
    scorer.begin(torch.zeros(len(sequences), 1, 1), None)
    for last, token in itertools.pairwise(ended.unsqueeze(-1).unbind(1)):
        gained += scorer.score(last).gather(2, token.unsqueeze(-1)).squeeze(-1)
        scorer.extend(torch.zeros_like(last))
    return gained.squeeze(1).tolist()


def total(phrases, tokens):
    """Sum of the bonus of the tokens of a sequence and of <eos>."""
    return totals(phrases, [tokens])[0]


def covered(phrases, tokens):
    """Number of tokens in phrases, read from left to right, for phrases of which none begins inside another."""
    count, at = 0, 0
    while at < len(tokens):
        match = next((p for p in phrases if tokens[at : at + len(p)] == p), [])
        count, at = count + len(match), at + max(1, len(match))
    return count


@pytest.mark.parametrize("phrases", [[[1, 2, 3]], [[1, 2], [3, 4, 5]], [[1, 2, 3], [4, 2]], [[6]]])
def test_complete_phrases_keep_their_bonus_and_others_lose_it(phrases):
    generator = torch.Generator().manual_seed(0)
    for length in (0, 1, 3, 8, 20):
        for _ in range(20):
            tokens = torch.randint(1, V - 1, (length,), generator=generator).tolist()
            assert total(phrases, tokens) == covered(phrases, tokens), tokens


@pytest.mark.parametrize(
    ("phrases", "tokens", "expected"),
    [
        ([[1, 1, 2]], [1, 1, 1, 2], 3),  # the third 1 is the second of a phrase that begins later
        ([[1, 2, 1, 2, 3]], [1, 2, 1, 2, 1, 2, 3], 5),
        ([[1, 2], [1, 2, 3, 4]], [1, 2, 3, 5], 2),  # the shorter phrase is kept
        ([[1, 2], [1, 2, 3, 4]], [1, 2, 3, 4], 4),
        ([[1, 2, 3], [2, 4]], [1, 2, 4], 2),
        ([[1, 2, 3], [2]], [1, 2, 4], 1),  # a phrase inside of one that is left
        ([[1, 2, 3], [2]], [1, 2], 1),
        ([[1, 2, 3]], [1, 2], 0),
        ([[1, 2, 3, 4], [2, 3, 5], [3]], [2, 3, 5], 3),
        ([[1, 2, 3, 4], [2, 3, 5], [3]], [1, 2, 3, 5], 3),  # the 3 is left in one phrase and counts in another
    ],
)
def test_phrases_that_share_tokens(phrases, tokens, expected):
    assert total(phrases, tokens) == expected


@pytest.mark.parametrize("tokens", [[1, 2], [1, 2, 3], [1, 2, 1], [2, 4], [5], [1, 1]])
def test_without_an_end_an_unfinished_phrase_is_taken_back_with_the_last_token(tokens):
    phrases = [[1, 2, 3], [2, 4], [1, 2, 3, 4, 5]]
    scorer, gained = HotwordScorer(phrases, V), 0.0
    scorer.begin(torch.zeros(1, 1, 1), None)
    for last, token in itertools.pairwise([EOS, *tokens]):
        gained += float(scorer.score(torch.tensor([[last]]))[0, 0, token])
        scorer.extend(torch.tensor([[0]]))
    assert gained - float(scorer.unfinished()[0, 0, tokens[-1]]) == total(phrases, tokens)


def outermost(phrases, tokens):
    """Number of tokens of the occurrences of phrases that lie in no other occurrence."""
    places = {(i, i + len(p)) for p in phrases for i in range(len(tokens)) if tokens[i : i + len(p)] == p}
    inside = {one for one, other in itertools.permutations(places, 2) if other[0] <= one[0] and one[1] <= other[1]}
    return sum(end - start for start, end in places - inside)


@pytest.mark.parametrize(
    "phrases", [[[1, 2, 3, 4], [2, 3, 5], [3]], [[1, 2, 3], [2, 3, 4]], [[1, 2, 1], [2], [2, 2, 3]]]
)
def test_the_bonus_matches_the_occurrences_in_no_other(phrases):
    sequences = list(map(list, itertools.product(range(1, 6), repeat=5)))
    for tokens, found in zip(sequences, totals(phrases, sequences), strict=True):
        assert found == outermost(phrases, tokens), tokens


def test_thousands_of_phrases_take_the_room_of_their_nodes():
    generator = torch.Generator().manual_seed(0)
    for first in ([], [7]):  # all begin alike, or not
        drawn = torch.randint(2, 4000, (2000, 4), generator=generator).tolist()
        scorer = HotwordScorer([[*first, *phrase] for phrase in drawn], 4000)
        assert len(scorer._tokens) < 3 * 2000 * 4


def test_no_unfinished_sequence_owes_anything():
    phrases = [[1, 2, 3], [2, 3, 1], [1, 1], [3]]
    assert all(0 <= found <= 4 * 2 for found in totals(phrases, list(itertools.product([1, 2, 3, 4], repeat=4))))


@pytest.mark.parametrize(
    ("phrases", "greatest"), [([[1, 2, 3]], 1), ([[1, 2], [2, 3, 4]], 2), ([[1, 2, 3], [2, 3, 4], [3, 5]], 3)]
)
def test_the_greatest_gain_of_a_token_is_known(phrases, greatest):
    """After the phrase 1 2, the token 3 continues the phrase 2 3 4, which began with the 2 that counts already."""
    scorer = HotwordScorer(phrases, V)
    scorer.begin(torch.zeros(1, 1, 1), None)
    gains = [float(scorer.score(torch.tensor([[EOS]])).max())]
    for tokens in itertools.product(range(1, 6), repeat=4):
        scorer.begin(torch.zeros(1, 1, 1), None)
        gains += [float(scorer.score(torch.tensor([[token]])).max()) for token in tokens]
    assert max(gains) == scorer.greatest == greatest


def test_hypotheses_of_a_batch_are_independent():
    phrases, sequences = [[1, 2, 3], [2, 2]], torch.tensor([[[1, 2, 2], [2, 2, 1]], [[3, 1, 2], [1, 2, 3]]])
    scorer = HotwordScorer(phrases, V)
    scorer.begin(torch.zeros(2, 1, 1), None)
    first = scorer.score(torch.full((2, 1), EOS))
    scorer.extend(torch.zeros(2, 2, dtype=torch.long))  # two hypotheses from one
    scores = [first.expand(-1, 2, -1)]
    for step in range(3):
        scores.append(scorer.score(sequences[..., step]))
        scorer.extend(torch.tensor([[0, 1], [0, 1]]))
    for b, w in itertools.product(range(2), range(2)):
        alone = HotwordScorer(phrases, V)
        alone.begin(torch.zeros(1, 1, 1), None)
        for step, last in enumerate([EOS, *sequences[b, w].tolist()]):
            assert torch.equal(alone.score(torch.tensor([[last]]))[0, 0], scores[step][b, w])
            alone.extend(torch.tensor([[0]]))
    scorer.extend(torch.tensor([[1, 0], [1, 0]]))
    scorer.keep(torch.tensor([1]))
    assert scorer.score(torch.tensor([[4, 4]])).shape == (1, 2, V)


def encode(text):
    return [" abc".find(letter) + 1 if letter in "abc " else 1 for letter in text]


def read(path, known="abc 1"):
    """Phrases as texts, and notices, with a vocabulary of some letters."""
    phrases, notices = read_hotwords(path, lambda text: [ord(x) if x in known else 1 for x in text], 1)
    return ["".join(map(chr, phrase)) for phrase in phrases], list(map(str, notices))


def test_phrases_are_read_from_a_file(tmp_path):
    (tmp_path / "words.txt").write_text("# names\nab\n\n  c a \n#a\nA\n")
    assert read(tmp_path / "words.txt") == (["ab", "c a", "a"], [])
    assert read(tmp_path / "words.txt", "AB ")[0] == ["AB", "A"]


def test_weights_of_other_tools_are_not_part_of_a_phrase(tmp_path):
    (tmp_path / "words.txt").write_text("ab 20\na b :1.5\nc\t3\nx 2\na 11\n")
    lines, part = ("20", "1.5", "3"), "11 is part of the phrase 'a 11'; delete it if it is a weight"
    phrases, notices = read(tmp_path / "words.txt")
    assert phrases == ["ab", "a b", "c", "a 11"]
    assert notices[:3] == [
        f"{tmp_path}/words.txt:{number}: the weight {weight} is not used: all phrases have --hotword_weight"
        for number, weight in enumerate(lines, start=1)
    ]
    assert "words.txt:4: 'x' is left out" in notices[3] and notices[4].endswith(f"words.txt:5: {part}")


def test_a_phrase_with_an_unknown_character_is_left_out():
    phrases, (notice,) = read(["ab", "a-b", "c"])
    assert phrases == ["ab", "c"] and notice.startswith("hotwords:2: 'a-b' is left out: the vocabulary lacks")
    assert read(["xy"])[0] == []


def test_a_scorer_without_phrases_gives_nothing():
    assert total([], [1, 2, 3]) == 0 and HotwordScorer([], V).count([1, 2]) == (0, 0)


@pytest.mark.parametrize(
    ("prompt", "terms"),
    [
        ("", ()),
        ("Chien, Huang;\n  Dong Fang", ("Chien", "Huang", "Dong Fang")),
        ("北京，南京、上海。", ("北京", "南京", "上海")),
        ("The following is a talk about old trains. 'Ulm', \"Bonn\"!", ("Ulm", "Bonn")),
        ("v2.5 GPT-4.", ("v2.5 GPT-4",)),
        ("以下是一个关于火车以及旅行的很长的普通话句子还有更多", ()),
    ],
)
def test_terms_of_a_prompt_are_its_short_parts(prompt, terms):
    assert split_prompt(prompt) == terms


def test_an_empty_text_is_no_file():
    with pytest.raises(DataError, match="^hotwords are an empty text; give phrases, or the path of a file of them$"):
        read_hotwords("", list, 1)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "words.txt: has no phrase; write one a line"),
        ("\n\n", "words.txt: has no phrase; write one a line"),
        ("# ab\n", "words.txt: has no phrase; write one a line"),
    ],
)
def test_a_file_without_phrases_is_refused(tmp_path, content, text):
    (tmp_path / "words.txt").write_text(content)
    with pytest.raises(DataError, match=text):
        read_hotwords(tmp_path / "words.txt", lambda line: [1 if x == "x" else 2 for x in line], 1)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="gone.txt: cannot be read"):
        read_hotwords(tmp_path / "gone.txt", encode, 1)


def test_phrases_that_are_no_text_are_refused():
    with pytest.raises(DataError, match="hotwords:2: is a NoneType; write each phrase as str"):
        read_hotwords(["a", None], encode, 0)
    with pytest.raises(DataError, match="hotwords are a int; give phrases, or the path of a file of them"):
        read_hotwords(5, encode, 0)


def test_complete_phrases_of_a_text_and_their_tokens_are_counted():
    phrases = [[1, 2, 3], [2, 3, 4], [5]]
    scorer = HotwordScorer(phrases, V)
    assert scorer.count([1, 2, 3, 5, 1, 2]) == (2, 4)
    for tokens in itertools.product(range(1, 6), repeat=4):
        assert scorer.count(tokens)[1] == total(phrases, tokens)


@pytest.mark.parametrize("ctc_weight", [0.0, 0.3, 1.0])
def test_a_large_bonus_repeats_no_phrase_without_end(build, sources, caplog, ctc_weight):
    decoder, ctc = build()
    ctc.ctc_lo.bias.data[0] = 9  # so that it hears few tokens
    option, scorer = options(ctc_weight=ctc_weight, nbest=1, hotword_weight=640.0), HotwordScorer([[3, 17], [5]], 30)
    found = batched(decoder, ctc, sources, option, hotwords=scorer)
    for (best,), source in zip(found, sources, strict=True):
        path = ctc.argmax(source.unsqueeze(0))[0].unique_consecutive()
        heard = int((path != 0).sum()) if ctc_weight else len(source) // 2
        phrases, tokens = scorer.count(best.tokens)
        assert phrases <= 4 or tokens <= heard
    (said,) = caplog.messages  # once, however many texts there are
    assert said.startswith("hotword_weight 640 makes hotwords repeat") and said.endswith("; lower --hotword_weight")
    few = options(ctc_weight=ctc_weight, nbest=1, hotword_weight=1.0)
    caplog.clear()
    batched(decoder, ctc, sources, few, hotwords=scorer)
    assert not caplog.messages


def test_without_ctc_a_text_that_repeats_phrases_has_hardly_more_tokens_than_without_hotwords(
    build, sources, monkeypatch
):
    decoder, _ = build()
    decoder.output_layer.bias.data[-1] += 4  # so that texts end
    option, scorer = options(ctc_weight=0.0, nbest=1, hotword_weight=8.0), HotwordScorer([[3], [5]], 30)
    plain = batched(decoder, None, sources, option)
    found = batched(decoder, None, sources, option, hotwords=scorer)
    monkeypatch.setattr(beam_search, "repeating", lambda *given: [])
    monkeypatch.setattr(beam_search, "without_repeats", lambda *given: None)
    endless = batched(decoder, None, sources, option, hotwords=scorer)
    repeated = [row for row, (best,) in enumerate(endless) if scorer.count(best.tokens)[0] > 4]
    assert repeated
    for row in repeated:
        before, after, without = (len(each[row][0].tokens) for each in (endless, found, plain))
        assert after <= without + 2 < before


def test_where_the_positions_alone_limit_a_text_no_search_with_hotwords_is_long(build, sources, monkeypatch):
    decoder, _ = build()
    decoder.output_layer.bias.data[-1] += 4  # so that texts end
    option, scorer = options(ctc_weight=0.0, nbest=1, hotword_weight=8.0), HotwordScorer([[3], [5]], 30)
    expected = batched(decoder, None, sources, option, hotwords=scorer)
    decoder.most_tokens, limits, search = 200, [], beam_search.BeamSearch._search

    def noted(self, source, lengths, option, *given):
        limits.append(option.maxlenratio)
        return search(self, source, lengths, option, *given)

    monkeypatch.setattr(beam_search.BeamSearch, "_search", noted)
    found = batched(decoder, None, sources, option, hotwords=scorer)
    assert [best.tokens for (best,) in found] == [best.tokens for (best,) in expected]
    longest = max(len(best.tokens) for (best,) in batched(decoder, None, sources, option))
    assert limits[:2] == [0.0, -2 * longest - 10] and all(-longest - 2 <= limit < 0 for limit in limits[2:-1])


@pytest.mark.parametrize("ctc_weight", [0.3, 1.0])
def test_beginnings_of_phrases_that_nobody_completes_push_out_few_texts(build, sources, ctc_weight):
    """Half of the tokens begin a phrase whose second token is impossible: every text has its score without hotwords."""
    decoder, ctc = build()
    never = 28
    for layer in (decoder.output_layer, ctc.ctc_lo):
        layer.bias.data[never] = -100
    scorer = HotwordScorer([[first, never] for first in range(2, 15)], 30)
    option = options(ctc_weight=ctc_weight, beam_size=4, nbest=1, hotword_weight=4.0)
    plain = [best[0].score for best in batched(decoder, ctc, sources, option)]
    found = [best[0].score for best in batched(decoder, ctc, sources, option, hotwords=scorer)]
    assert sum(one - other for one, other in zip(plain, found, strict=True)) < 20  # 27 and 51 with the whole bonus


def test_tokens_of_hotwords_are_candidates_of_ctc(build, sources):
    """CTC hears the token, and the decoder has it far from its best."""
    decoder, ctc = build()
    token = 17
    decoder.output_layer.bias.data[token] = -8
    ctc.ctc_lo.bias.data[token] = 12
    option = options(ctc_weight=0.6, beam_size=2, nbest=1, hotword_weight=3.0)
    plain = batched(decoder, ctc, sources, option)
    found = batched(decoder, ctc, sources, option, hotwords=HotwordScorer([[token]], 30))
    assert not any(token in best[0].tokens for best in plain)
    assert sum(token in best[0].tokens for best in found) >= 2
    for hypotheses, before in zip(found, plain, strict=True):
        assert hypotheses[0].score >= before[0].score
