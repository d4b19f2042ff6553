"""The search with a shortlist: with all tokens it is the search without, and no sentence depends on its batch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.decoding.encoder.precision import set_precision
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.decoding.search.hotwords import HotwordScorer
from espnet_diverse.decoding.search.scorers import DecoderScorer
from espnet_diverse.decoding.search.shortlist import Allowed, Shortlist, load_shortlist
from espnet_diverse.decoding.streaming.block_search import check_stream_options
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.adapters.low_rank import LowRankOptions, add_low_rank
from espnet_diverse.nets.language_model import DiverseTransformerLM
from espnet_diverse.scope import scope
from espnet_diverse.text.lexical_table import LexicalTable

VOCABULARY, WORDS = 30, 12
SPECIAL = {0, 1, VOCABULARY - 1}
TEXTS = [np.array(text) for text in ([3, 7, 3], [5], [11, 2, 4, 6], [0, 9], [8, 8, 8])]
OPTIONS = SearchOptions(beam_size=4, nbest=4, ctc_weight=0.0, lm_weight=0.0, shortlist_first=3, shortlist_best=5)


def table(each=7, of_null=10):
    """`each` random translations of each of 12 source tokens, and tokens of NULL."""
    rng = np.random.default_rng(0)
    rows = [rng.permutation(VOCABULARY)[: each if source < WORDS else of_null] for source in range(WORDS + 1)]
    sources, targets = np.repeat(np.arange(WORDS + 1), list(map(len, rows))), np.concatenate(rows)
    return LexicalTable.of_entries(sources, targets, rng.uniform(0.1, 1, len(targets)), WORDS)


def shortlist(**options):
    return Shortlist(table(**options), sorted(SPECIAL), Path("lex.s2t"))


@pytest.fixture
def search(build, sources):
    """Search with a shortlist, or None, for some of the sources: (tokens, score) of the n-best texts of each."""

    def run(of, rows=range(5), option=OPTIONS, precision="float32", **helpers):
        decoder, _ = build(VOCABULARY)
        found = BeamSearch(
            decoder,
            None,
            VOCABULARY - 1,
            of_text=True,
            shortlist=of,
            **{name: make() for name, make in helpers.items()},
        )
        set_precision([decoder, *(each.attention for each in found.scorers)], precision)
        chosen, lengths = [sources[row] for row in rows], torch.tensor([len(sources[row]) for row in rows])
        texts = [TEXTS[row] for row in rows]
        return found(pad_sequence(chosen, batch_first=True), lengths, option, utterances=texts)

    return run


def assert_same(found, expected, exact=False):
    for ours, theirs in zip(found, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs] and ours
        scores = [each.score for each in theirs]
        assert [each.score for each in ours] == (scores if exact else pytest.approx(scores, abs=1e-4))


def language_model():
    torch.manual_seed(4)
    model = DiverseTransformerLM(VOCABULARY, att_unit=16, embed_unit=8, head=2, unit=16, layer=1)
    for parameter in model.parameters():
        parameter.data *= 3
    return model.eval()


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("helper", ["none", "language model", "hotwords", "penalty"])
def test_with_the_whole_vocabulary_nothing_changes(search, precision, helper):
    helpers, option = {}, replace(OPTIONS, shortlist_first=VOCABULARY)
    if helper == "language model":
        helpers, option = {"language_model": language_model}, replace(option, lm_weight=0.5)
    if helper == "hotwords":
        helpers = {"hotwords": lambda: HotwordScorer([[5, 6], [7]], VOCABULARY)}
    if helper == "penalty":
        option = replace(option, penalty=0.5, length_penalty=0.7, minlenratio=0.2)
    everything = search(shortlist(of_null=VOCABULARY), option=option, precision=precision, **helpers)
    assert_same(everything, search(None, option=option, precision=precision, **helpers), exact=True)


@pytest.mark.parametrize("precision", ["float32", "int8"])  # sums of bfloat16 depend on the number of rows
def test_a_sentence_does_not_depend_on_its_batch(search, precision):
    together = search(shortlist(), precision=precision)
    for row in range(5):
        assert_same(search(shortlist(), [row], precision=precision), together[row : row + 1])
    assert_same(search(shortlist(), [4, 1, 0], precision=precision), [together[row] for row in (4, 1, 0)])


def test_texts_consist_of_the_tokens_of_their_sentence(search):
    lexicon = table()
    always = SPECIAL | set(lexicon.of_null[:3].tolist())
    free = search(None)
    for text, found, other in zip(TEXTS, search(shortlist()), free, strict=True):
        allowed = always.union(*(lexicon.best(token, 5).tolist() for token in text))
        assert len(found) == 4 and all(set(each.tokens) <= allowed for each in found)
        assert not all(set(each.tokens) <= allowed for each in other)


def test_the_softmax_is_over_the_tokens_of_the_sentence(build, sources):
    """The score of a text by the whole decoder, with the other tokens left out of the softmax."""
    decoder, _ = build(VOCABULARY)
    one = shortlist()
    allowed = one([TEXTS[0]], OPTIONS, "cpu").tokens[0]
    source, lengths = sources[0].unsqueeze(0), torch.tensor([len(sources[0])])
    (found,) = BeamSearch(decoder, None, VOCABULARY - 1, of_text=True, shortlist=one)(
        source, lengths, OPTIONS, utterances=TEXTS[:1]
    )
    for text in found:
        words = [VOCABULARY - 1, *text.tokens]
        with torch.no_grad():
            scores, _ = decoder(source, lengths, torch.tensor([words]), torch.tensor([len(words)]))
        log_probs = scores[0, :, allowed].log_softmax(-1)
        score = sum(log_probs[at, allowed == token] for at, token in enumerate([*text.tokens, VOCABULARY - 1]))
        assert text.score == pytest.approx(float(score), abs=1e-4)


def test_an_adapter_of_each_language_on_the_output_layer_counts(build, sources):
    decoder, _ = build(VOCABULARY)
    conditions = {"tgtlang": ["de", "fr"]}
    options = LowRankOptions(rank=2, target_modules=["output_layer"], by="tgtlang", conditions=conditions)
    add_low_rank(decoder, options)
    torch.nn.init.normal_(decoder.output_layer.lora_B)
    tokens = torch.tensor([[0, 1, 3, 5, VOCABULARY - 1]])
    scorer = DecoderScorer(decoder.eval(), shortlisted=True)

    def scores(allowed):
        scorer.allow(allowed)
        scorer.begin(sources[0][None], None)
        return scorer.score(torch.tensor([[VOCABULARY - 1]]))[0, 0]

    with scope({"tgtlang": torch.tensor([1])}, collect=False), torch.no_grad():
        expected = scores(None)[tokens[0]].log_softmax(-1)
        torch.testing.assert_close(scores(Allowed(tokens, tokens[0], None)), expected)


def test_a_beam_may_be_wider_than_the_shortlist(search):
    option = replace(OPTIONS, beam_size=20, nbest=3, shortlist_first=0, shortlist_best=1, maxlenratio=-3)
    found = search(shortlist(), option=option)
    assert all(0 < len(best) <= 3 for best in found)
    for row in range(5):
        assert_same(search(shortlist(), [row], option), found[row : row + 1])


def test_a_text_that_is_too_short_is_searched_again_with_the_same_tokens(build, sources):
    decoder, _ = build(VOCABULARY)
    decoder.output_layer.bias.data[-1] = 30.0  # every hypothesis ends at once
    option = replace(OPTIONS, beam_size=1, nbest=1, minlenratio=0.2)
    search = BeamSearch(decoder, None, VOCABULARY - 1, of_text=True, shortlist=shortlist())
    lengths = torch.tensor([len(source) for source in sources])
    found = search(pad_sequence(sources, batch_first=True), lengths, option, utterances=TEXTS)
    assert [best[0].tokens for best in found] == [[]] * 5


def test_hotwords_are_found_although_no_source_token_has_them(search):
    lexicon = table()
    there = SPECIAL.union(lexicon.of_null[:3].tolist(), lexicon.best(5, 5).tolist())
    absent = sorted(set(range(VOCABULARY)) - there)[:2]
    found = search(
        shortlist(), [1], replace(OPTIONS, hotword_weight=20.0), hotwords=lambda: HotwordScorer([absent], VOCABULARY)
    )
    assert any(set(absent) <= set(text.tokens) for text in found[0])
    assert not any(set(absent) & set(text.tokens) for text in search(shortlist(), [1])[0])


def test_tokens_are_filled_up_to_the_longest():
    allowed = shortlist()(TEXTS, OPTIONS, "cpu")
    counts = (allowed.tokens >= 0).sum(1)
    assert counts.max() == allowed.tokens.size(1) > counts.min()
    assert torch.equal(allowed.rows, allowed.tokens[allowed.tokens >= 0].unique())
    for tokens, columns in zip(allowed.tokens, allowed.columns, strict=True):
        there = tokens[tokens >= 0]
        assert torch.equal(allowed.rows[columns[tokens >= 0]], there) and torch.equal(there, there.unique())
    kept = allowed.keep(torch.tensor([3, 1]))
    assert torch.equal(kept.tokens, allowed.tokens[[3, 1]]) and torch.equal(kept.columns, allowed.columns[[3, 1]])
    assert shortlist()(TEXTS[:1], OPTIONS, "cpu").columns is None


def test_a_table_without_null_has_no_frequent_tokens(search):
    without = shortlist(of_null=0)
    with pytest.raises(ConfigError, match=r"lex\.s2t: has no lines of the source NULL.*shortlist_first=0"):
        search(without)
    assert all(search(without, option=replace(OPTIONS, shortlist_first=0)))


def test_a_shortlist_is_for_text():
    with pytest.raises(ConfigError, match=r"lex\.s2t: a shortlist is for models that translate text, not for task st"):
        load_shortlist(Path("lex.s2t"), None, "st")


def test_a_stream_has_no_shortlist():
    with pytest.raises(ConfigError, match=r"lex\.s2t: a shortlist is for models that translate text; leave it out"):
        check_stream_options(SearchOptions(), Fusion(shortlist="lex.s2t"))
