"""Draws against the distribution that the decoder gives, which is written out for all short texts."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.sampling import SamplingSearch
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets.decoder import DiverseTransformerDecoder
from espnet_diverse.scope import scope

SIZE, EOS, STEPS = 6, 5, 3  # <blank>, <unk>, three letters and <sos/eos>
TABLES = {"lang": ["ar", "de"]}


@pytest.fixture
def small():
    """A decoder over a vocabulary of which all texts can be listed, and the output of an encoder for two utterances."""
    torch.manual_seed(3)
    selection = {"strategy": "group", "pool": 4, "by": "lang", "conditions": TABLES}
    attention = {"core": "softmax", "selection": selection}
    decoder = DiverseTransformerDecoder(SIZE, 8, attention_heads=2, linear_units=8, num_blocks=1, attention=attention)
    for parameter in decoder.parameters():
        if parameter.dim() > 1:
            parameter.data *= 2
    return decoder.eval(), [torch.randn(4, 8), torch.randn(7, 8)]


def search(decoder, sources, conditions=None, **changed):
    """Draws for utterances that are told apart by their encoder output."""
    option = SearchOptions(**{"search": "sampling", "maxlenratio": -STEPS} | changed)
    sampling, lengths = SamplingSearch(decoder, decoder.output_layer.out_features - 1), [len(x) for x in sources]
    with scope(conditions or {"lang": torch.tensor([0])}, collect=False):
        padded = pad_sequence(sources, batch_first=True)
        return sampling(padded, torch.tensor(lengths), option, [source.numpy() for source in sources])


@torch.no_grad()
def log_probs(decoder, source, text, language=0):
    """Log probabilities (T, V) of the token after each prefix of a text, by ESPnet's pass over all of it."""
    tokens = torch.tensor([[EOS, *text]])
    with scope({"lang": torch.tensor([language])}, collect=False):
        lengths = torch.tensor([len(source)])
        logits, _ = decoder(source[None], lengths, tokens, torch.tensor([tokens.size(1)]))
    return logits[0].log_softmax(-1).double()


def distribution(decoder, source, temperature=1.0, top_k=0, least=0, language=0):
    """Probability of every text of at most `STEPS` tokens; a text ends by <sos/eos> or its length."""
    found = {}
    for length in range(STEPS + 1):
        for text in product(range(2, EOS), repeat=length):
            steps = [*text, *([EOS] if length < STEPS else [])]
            rows = log_probs(decoder, source, text, language)
            total = 1.0
            for step, token in enumerate(steps):
                logits = rows[step] / temperature
                logits[:2] = -torch.inf
                if step < least:
                    logits[EOS] = -torch.inf
                if top_k:
                    logits[logits < logits.sort(descending=True).values[top_k - 1]] = -torch.inf
                total *= logits.softmax(-1)[token].item()
            found[text] = total
    assert sum(found.values()) == pytest.approx(1)
    return found


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, {}),
        ({"temperature": 0.5}, {"temperature": 0.5}),
        ({"temperature": 2.0, "top_k": 2}, {"temperature": 2.0, "top_k": 2}),
        ({"minlenratio": -2}, {"least": 2}),
    ],
    ids=str,
)
def test_texts_are_drawn_as_often_as_they_are_probable(small, changed, expected):
    decoder, sources = small
    draws = 4000
    found = search(decoder, sources, {"lang": torch.tensor([0, 1])}, nbest=draws, **changed)
    for language, (source, best) in enumerate(zip(sources, found, strict=True)):
        probabilities = distribution(decoder, source, language=language, **expected)
        texts = [tuple(hypothesis.tokens) for hypothesis in best]
        assert {text for text in probabilities if not probabilities[text]}.isdisjoint(texts)
        wanted = {text: draws * p for text, p in probabilities.items() if draws * p >= 5}
        counts = [texts.count(text) for text in wanted]
        rest = draws - sum(counts)
        expected_rest = draws - sum(wanted.values())
        observed, expectation = [*counts, rest], np.array([*wanted.values(), max(expected_rest, 0.0)])
        if expected_rest < 1e-3:
            assert rest == 0
            observed, expectation = counts, expectation[:-1]
        assert chisquare(observed, expectation * draws / expectation.sum()).pvalue > 1e-3


def test_the_score_is_the_log_probability_by_the_decoder(small):
    decoder, sources = small
    for source, best in zip(sources, search(decoder, sources, nbest=20, temperature=0.7, top_k=3), strict=True):
        assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
        for one in best:
            rows = log_probs(decoder, source, one.tokens)
            steps = [*one.tokens, EOS][:STEPS]
            expected = sum(rows[step, token].item() for step, token in enumerate(steps))
            assert one.score == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("any_sums")
def test_draws_are_the_same_in_any_batch_and_order(small):
    """Up to rounding: here no random number falls on the boundary between two tokens."""
    decoder, _ = small
    torch.manual_seed(5)
    sources = [torch.randn(frames, 8) for frames in (9, 4, 6, 4)]
    options = {"maxlenratio": 0.0, "nbest": 3}
    together = search(decoder, sources, **options)
    turned = search(decoder, sources[::-1], **options)[::-1]
    alone = [search(decoder, [source], **options)[0] for source in sources]
    for other in (turned, alone):
        for ours, theirs in zip(together, other, strict=True):
            assert [one.tokens for one in ours] == [one.tokens for one in theirs]
            assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-5)
    assert any(
        ours != theirs for ours, theirs in zip(together, search(decoder, sources, seed=1, **options), strict=True)
    )


def test_utterances_of_one_batch_end_at_their_own_lengths(small):
    decoder, _ = small
    decoder.output_layer.bias.data[-1] = -100.0  # <eos> never
    sources = [torch.randn(frames, 8) for frames in (9, 4, 6)]
    lengths = [len(best[0].tokens) for best in search(decoder, sources, maxlenratio=0.0)]
    assert lengths == [9, 4, 6]


def test_the_most_probable_token_alone_is_greedy(small):
    decoder, sources = small
    for source, best in zip(sources, search(decoder, sources, top_k=1, nbest=2), strict=True):
        text = []
        while len(text) < STEPS:
            row = log_probs(decoder, source, text)[-1]
            if (token := int(row[2:].argmax()) + 2) == EOS:
                break
            text.append(token)
        assert best[0].tokens == best[1].tokens == text
    for seed in range(4):  # however few texts are drawn
        drawn = search(decoder, sources, top_k=1, nbest=1, seed=seed)
        assert [one.tokens for (one,) in drawn] == [
            both[0].tokens for both in search(decoder, sources, top_k=1, nbest=2)
        ]


@pytest.mark.parametrize(("number", "expected"), [(0.0, [2, 2, 2]), (1 - 2**-53, [4, 4, 4])])
def test_the_least_and_the_greatest_random_number_draw_the_first_and_the_last_token(
    small, monkeypatch, number, expected
):
    """Of those that may be drawn: neither <blank> and <unk>, nor <sos/eos> before the least length."""
    decoder, sources = small
    drawn = "espnet_diverse.decoding.search.sampling._uniform_numbers"
    monkeypatch.setattr(drawn, lambda found, steps, _: torch.full((len(found), steps, 1), number, dtype=torch.float64))
    for (one,) in search(decoder, sources, minlenratio=-STEPS):
        assert one.tokens == expected


def test_a_trained_model_is_drawn_from_by_its_text(tiny_translation, other_sums):
    options = SearchOptions(search="sampling", nbest=4, seed=7)
    drawn = load_predictor(tiny_translation.model_dir, options=options)
    sources = [drawn.read(text)[0] for text in ("abcd", "da")]
    first, second = drawn.batch(sources, [{}, {}])
    assert drawn.batch(sources, [{}, {}]) == [first, second] and len(first) == 4
    (alone,) = drawn.batch(sources[1:], [{}])
    assert [one.tokens for one in alone] == [one.tokens for one in second]
    scores = [[one.score for one in best] for best in (alone, second)]
    assert scores[0] == pytest.approx(scores[1], rel=0, abs=1e-5)
    assert scores[0] != scores[1]  # the fixture does what some CPUs do
    assert len({best.text for best in (*first, *second)}) > 4
    assert np.isfinite([best.score for best in first]).all()


def test_speech_is_drawn_from_the_decoder_alone(tiny_run):
    assert load_predictor(tiny_run.model_dir, options=SearchOptions(search="sampling")).options.ctc_weight == 0
    with pytest.raises(ConfigError, match="ctc_weight 0.3 cannot be combined with search=sampling; set ctc_weight=0"):
        SearchOptions(search="sampling", ctc_weight=0.3)


def test_another_decoder_is_refused():
    with pytest.raises(ModelError, match="Linear has no batched search; use search=espnet"):
        SamplingSearch(torch.nn.Linear(1, 1), 5)


def test_texts_begin_with_the_start_token_of_the_model(small):
    decoder, (source, _) = small
    sampling, lengths = SamplingSearch(decoder, EOS, sos=2), torch.tensor([len(source)])
    options = SearchOptions(search="sampling", maxlenratio=-STEPS, nbest=4)
    with scope({"lang": torch.tensor([0])}, collect=False), torch.no_grad():
        (drawn,) = sampling(source[None], lengths, options, [source.numpy()])
        for one in drawn:
            read = torch.tensor([[2, *one.tokens]])
            scores = decoder(source[None], lengths, read, torch.tensor([read.size(1)]))[0][0].log_softmax(-1)
            written = [*one.tokens, EOS][:STEPS]
            expected = sum(scores[at, token].item() for at, token in enumerate(written))
            assert one.score == pytest.approx(expected, abs=1e-5)
