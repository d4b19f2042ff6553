"""The batched search against ESPnet's, which takes one utterance at a time."""

from dataclasses import replace

import pytest
import torch
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.attention import EVERYTHING
from espnet_diverse.cpu.fast_linear import speed_up
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam_search import BeamSearch, highest
from espnet_diverse.decoding.search.hotwords import HotwordScorer
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.nets.language_model import DiverseTransformerLM
from espnet_diverse.scope import scope
from espnet_diverse.upstream.search import BatchBeamSearch, CTCPrefixScorer, LengthBonus

TABLES = {"lang": ["ar", "de"], "domain": ["news", "talk", "song"]}
SELECTION = {"strategy": "group", "pool": 8, "by": "lang", "conditions": TABLES}
TASKS = {"lang": torch.tensor([0, 1, 1, 0, 1]), "domain": torch.tensor([2, 0, 1, 0, 2])}


def options(**changed):
    return SearchOptions(**{"beam_size": 4, "ctc_weight": 0.3, "nbest": 4} | changed)


def espnet(decoder, ctc, source, option, lm=None, lm_weight=0.0):
    """ESPnet's hypotheses, put together as its `Speech2Text` does: (tokens without <sos/eos>, score)."""
    size = decoder.output_layer.out_features
    eos, weight = size - 1, option.ctc_weight
    search = BatchBeamSearch(
        scorers={"decoder": decoder, "ctc": CTCPrefixScorer(ctc, eos), "length_bonus": LengthBonus(size), "lm": lm},
        weights={"decoder": 1 - weight, "ctc": weight, "length_bonus": option.penalty, "lm": lm_weight},
        beam_size=option.beam_size,
        vocab_size=size,
        sos=eos,
        eos=eos,
        pre_beam_score_key=None if weight == 1 else "full",
    )
    with torch.no_grad():
        found = search(source, option.maxlenratio, option.minlenratio)[: option.nbest]
    return [([token for token in hyp.yseq.tolist() if token != eos], float(hyp.score)) for hyp in found]


def batched(decoder, ctc, sources, option, **more):
    lengths = torch.tensor([len(source) for source in sources])
    search = BeamSearch(decoder, ctc, decoder.output_layer.out_features - 1, **more)
    return search(pad_sequence(sources, batch_first=True), lengths, option)


def assert_same(ours, theirs):
    for found, expected in zip(ours, theirs, strict=True):
        assert [hyp.tokens for hyp in found] == [tokens for tokens, _ in expected]
        assert [hyp.score for hyp in found] == pytest.approx([score for _, score in expected], abs=1e-4)
    assert any(expected for expected in theirs)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"ctc_weight": 0.0},
        {"ctc_weight": 1.0},
        {"ctc_weight": 0.6, "penalty": 0.5},
        {"beam_size": 1, "nbest": 1},
        {"nbest": 1},
        {"nbest": 2, "penalty": -0.5},
        {"nbest": 1, "penalty": 3.0, "maxlenratio": 0.9},
        {"minlenratio": 0.5},
        {"minlenratio": 1.0},
        {"minlenratio": -3, "maxlenratio": -7},
        {"maxlenratio": 0.4},
    ],
    ids=str,
)
def test_hypotheses_and_scores_match_espnet(build, sources, changed):
    decoder, ctc = build()
    option = options(**changed)
    theirs = [espnet(decoder, ctc, source, option) for source in sources]
    assert_same(batched(decoder, ctc, sources, option), theirs)


@pytest.mark.parametrize("changed", [{"ctc_weight": 0.3}, {"ctc_weight": 0.0}], ids=str)
def test_a_limited_core_counts_positions_and_not_hypotheses(build, sources, changed):
    """The beam has more nodes than the core has positions, and the shortest source is shorter than the beam."""
    decoder, ctc = build()
    option = options(beam_size=5, maxlenratio=-12, **changed)
    expected = batched(decoder, ctc, sources[-2:], option)
    assert max(len(hyp.tokens) for found in expected for hyp in found) > 3
    for layer in decoder.decoders:
        for attention in (layer.self_attn, layer.src_attn):
            attention.core.supports = replace(EVERYTHING, max_length=13)
    assert batched(decoder, ctc, sources[-2:], option) == expected
    for layer in decoder.decoders:
        layer.self_attn.core.supports = replace(EVERYTHING, max_length=2)
    batched(decoder, ctc, sources[-2:], replace(option, maxlenratio=-2))  # as many tokens as positions
    with pytest.raises(DataError, match="attention 'softmax' supports at most 2 positions, and 3 are needed"):
        batched(decoder, ctc, sources[-2:], option)


@pytest.mark.parametrize(
    "changed",
    [
        {"attention": {"core": "sma", "decoder_test_mask": True}, "cross_attention": {"core": "sma"}},
        {"attention": {"core": "sdma", "decoder_test_mask": True}, "cross_attention": {"core": "sdma"}},
        {"attention": {"core": "gated"}, "cross_attention": {"core": "gated"}},
        {
            "attention": {"core": "talking_heads", "start": "drawn"},
            "cross_attention": {"core": "talking_heads", "start": "drawn"},
        },
        {"attention": {"core": "differential"}, "cross_attention": {"core": "differential"}},
        {"attention": {"core": "window", "window": 1, "global_tokens": [0, 2]}},
        {"attention": {"core": "bigbird", "block_size": 1, "window_blocks": 0, "random_blocks": 1}},
        {"attention": {"core": "lambda_attention"}, "cross_attention": {"core": "lambda_attention"}},
        {"attention": {"core": "random_features"}, "cross_attention": {"core": "random_features"}},
        {"attention": {"head_patterns": ["previous", {"window": 1}], "position": "alibi"}},
        {"cross_attention": {"head_patterns": ["next", {"window": 1}]}},
        {"attention": {"position": "rotary", "qk_norm": {}}, "cross_attention": {"qk_norm": {}}},
        {"attention": {"position": "transformer_xl"}},
        {"attention": {"routing": {}}, "cross_attention": {"routing": {"shared": 0}}},
        {"attention": {"dex": {"steps": 4000}}, "cross_attention": {"dex": {"steps": 4000}}},
        {
            "attention": {"core": "window", "window": 1, "layers": [2]},
            "cross_attention": {"core": "sdma", "layers": [1]},
        },
        {"normalize_before": False},
        {"concat_after": True},
        {"cls": TransformerDecoder},
        {"vocabulary": 5},  # fewer tokens than CTC could rank
    ],
    ids=str,
)
def test_every_decoder_is_searched_as_espnet_does(build, sources, changed):
    decoder, ctc = build(**changed)
    theirs = [espnet(decoder, ctc, source, options()) for source in sources]
    assert_same(batched(decoder, ctc, sources, options()), theirs)


@pytest.mark.parametrize(
    "changed",
    [
        {"attention": {"selection": SELECTION}, "cross_attention": {"selection": SELECTION | {"strategy": "subset"}}},
        {"cross_attention": {"core": "sdma", "selection": SELECTION | {"by": ["lang", "domain"]}}},
        {
            "adapter": {"by": "lang", "conditions": TABLES, "bottleneck": 4},
            "start_tag": {"by": "domain", "conditions": TABLES},
        },
    ],
    ids=["heads", "heads of two conditions", "adapters and tags"],
)
def test_each_utterance_is_searched_for_its_own_tasks(build, sources, changed):
    decoder, ctc = build(**changed)
    for name, parameter in decoder.named_parameters():
        if "adapter" in name:  # fresh ones do nothing
            parameter.data += 0.3 * torch.randn_like(parameter)
    theirs = []
    for row, source in enumerate(sources):
        with scope({condition: ids[row : row + 1] for condition, ids in TASKS.items()}, collect=False):
            theirs.append(espnet(decoder, ctc, source, options()))
    with scope(TASKS, collect=False):
        assert_same(batched(decoder, ctc, sources, options()), theirs)
    search = BeamSearch(decoder, ctc, decoder.output_layer.out_features - 1)
    for row in (1, 0, 1, 3):  # one task at a time, some again
        with scope({condition: ids[row : row + 1] for condition, ids in TASKS.items()}, collect=False):
            assert_same(search(sources[row][None], torch.tensor([len(sources[row])]), options()), theirs[row : row + 1])


@pytest.mark.parametrize("position", [None, "sinusoidal"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_a_language_model_takes_part(build, sources, position, weight):
    decoder, ctc = build()
    lm = DiverseTransformerLM(30, position, embed_unit=16, att_unit=32, head=2, unit=64, layer=2).eval()
    option = options(ctc_weight=weight)
    theirs = [espnet(decoder, ctc, source, option, lm, 0.5) for source in sources]
    assert_same(batched(decoder, ctc, sources, replace(option, lm_weight=0.5), language_model=lm), theirs)


def test_neither_the_batch_nor_faster_linear_maps_change_the_result(build, sources):
    decoder, ctc = build()
    together = batched(decoder, ctc, sources, options())
    for net in (decoder, ctc):
        speed_up(net)
    alone = [batched(decoder, ctc, [source], options())[0] for source in sources]
    assert_same(alone, together)


def test_utterances_longer_than_a_removal_of_nodes(build):
    decoder, ctc = build(vocabulary=100)
    torch.manual_seed(2)
    sources = [torch.randn(frames, 32) for frames in (70, 61, 35)]
    theirs = [espnet(decoder, ctc, source, options()) for source in sources]
    assert_same(batched(decoder, ctc, sources, options()), theirs)
    assert len(theirs[0][0][0]) > 40


def test_of_text_there_may_be_more_tokens_than_positions(build, sources):
    decoder, ctc = build()
    decoder.output_layer.bias.data[-1] = -100.0  # <eos> never
    option = options(ctc_weight=0.0, nbest=1)
    lengths = [len(best[0].tokens) for best in batched(decoder, None, sources, option, of_text=True)]
    assert lengths == [2 * (len(source) - 1) + 10 for source in sources]
    assert [len(best[0].tokens) for best in batched(decoder, None, sources, option)] == [40, 33, 21, 12, 5]


def test_hypotheses_are_ranked_by_their_score_a_token(build, sources):
    decoder, _ = build(vocabulary=5)
    decoder.output_layer.bias.data[-1] += 3  # short hypotheses have the greatest scores
    # A beam that holds every hypothesis, so that all of them are compared.
    everything = {"ctc_weight": 0.0, "beam_size": 200, "nbest": 200, "maxlenratio": -3}
    plain = batched(decoder, None, sources, options(**everything))
    normalised = batched(decoder, None, sources, options(**everything, length_penalty=2.0))
    changed = 0
    for ours, theirs in zip(normalised, plain, strict=True):
        ends = [min(len(one.tokens) + 1, 3) for one in theirs]  # with <eos>, except at the greatest length
        expected = sorted((-one.score / end**2, one.tokens) for one, end in zip(theirs, ends, strict=True))
        assert [one.tokens for one in ours] == [tokens for _, tokens in expected]
        assert [one.score for one in ours] == pytest.approx([-score for score, _ in expected])
        changed += [one.tokens for one in ours] != [one.tokens for one in theirs]
    assert changed


def test_a_vocabulary_smaller_than_the_beam_is_no_error(build, sources):
    decoder, ctc = build(vocabulary=5)
    found = batched(decoder, ctc, sources, options(beam_size=20, nbest=3))
    assert all(len(best) == 3 for best in found)


@pytest.mark.parametrize("changed", [{}, {"ctc_weight": 1.0}, {"maxlenratio": -2}], ids=str)
def test_no_hypothesis_holds_a_blank_where_all_tokens_fit_into_the_beam(build, sources, changed):
    decoder, ctc = build(vocabulary=5)
    option = options(**{"beam_size": 5, "nbest": 5} | changed)
    theirs = [espnet(decoder, ctc, source, option) for source in sources]
    assert any(0 in tokens for best in theirs for tokens, _ in best)  # below all others, and only to fill the beam
    theirs = [[hyp for hyp in best if 0 not in hyp[0]] for best in theirs]
    ours = batched(decoder, ctc, sources, option)
    assert not any(0 in hyp.tokens for best in ours for hyp in best)
    assert_same([best[: len(same)] for best, same in zip(ours, theirs, strict=True)], theirs)


@pytest.mark.parametrize("size", [3, 20])  # with and without a choice of candidates
def test_no_hypothesis_holds_a_blank_where_few_are_left(build, sources, size):
    decoder, ctc = build(vocabulary=5)
    found = batched(decoder, ctc, sources, options(beam_size=size, nbest=20, maxlenratio=-3))
    assert all(best and not any(0 in hyp.tokens for hyp in best) for best in found)
    assert all(len({tuple(hyp.tokens) for hyp in best}) == len(best) for best in found)


def test_hypotheses_that_all_end_too_early_are_none(build, sources):
    decoder, ctc = build()
    found = batched(decoder, ctc, sources, options(minlenratio=-50, maxlenratio=0.1))
    assert found == [[]] * 5


def test_another_decoder_or_language_model_is_refused(build):
    decoder, ctc = build()
    with pytest.raises(ModelError, match="Linear has no batched search; use search=espnet"):
        BeamSearch(torch.nn.Linear(1, 1), ctc, 29)
    with pytest.raises(ModelError, match="Linear has no batched search; use search=espnet"):
        BeamSearch(decoder, ctc, 29, torch.nn.Linear(1, 1))


def test_a_missing_part_is_refused(build, sources):
    decoder, ctc = build()
    for search, weight, said in (
        (BeamSearch(decoder, None, 29), 0.3, "ctc_weight 0.3 needs CTC, .* set ctc_weight=0"),
        (BeamSearch(None, ctc, 29), 0.3, "ctc_weight 0.3 needs a decoder, .* set ctc_weight=1"),
    ):
        with pytest.raises(ConfigError, match=said):
            search(sources[0][None], torch.tensor([40]), options(ctc_weight=weight))


@pytest.mark.parametrize("ctc_weight", [0.0, 0.3, 1.0])
def test_hotwords_are_found_where_they_were_not(build, sources, ctc_weight):
    decoder, ctc = build()
    option = options(ctc_weight=ctc_weight, beam_size=8, nbest=1)
    plain = batched(decoder, ctc, sources, option)
    phrase = [3, 17, 5, 11]
    scorer = HotwordScorer([phrase], 30)
    found = {
        weight: batched(decoder, ctc, sources, replace(option, hotword_weight=weight), hotwords=scorer)
        for weight in (0.0, 50.0)
    }
    assert found[0.0] == plain
    joined = [" ".join(map(str, best[0].tokens)) for best in found[50.0]]
    assert sum("3 17 5 11" in text for text in joined) >= 4
    assert not any("3 17 5 11" in " ".join(map(str, best[0].tokens)) for best in plain)


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_a_phrase_that_the_greatest_length_cuts_changes_nothing(build, sources, weight):
    """With as many hypotheses as tokens, all texts of two tokens are found."""
    decoder, ctc = build(vocabulary=6)
    option = options(beam_size=6, nbest=6, ctc_weight=weight, maxlenratio=-2, hotword_weight=5.0)
    scorer = HotwordScorer([[2, 3, 4], [4, 3, 2]], 6)
    assert_same(batched(decoder, ctc, sources, option, hotwords=scorer), batched(decoder, ctc, sources, option))


def test_the_n_best_are_certain_with_hotwords_too(build, sources):
    """A hypothesis that is behind may still gain by hotwords, so an early end must not change the n-best."""
    decoder, ctc = build()
    scorer = HotwordScorer([[3, 4, 5, 6, 7, 8]], 30)
    option = options(beam_size=6, nbest=3, hotword_weight=1.5, maxlenratio=-12)
    short = batched(decoder, ctc, sources, option, hotwords=scorer)
    long = batched(decoder, ctc, sources, replace(option, nbest=6), hotwords=scorer)
    assert short == [best[:3] for best in long]


@pytest.mark.parametrize("size", [3, 700, 32_000, 51_866])
def test_highest_values(size):
    x = torch.randn(2, 3, size).masked_fill_(torch.rand(2, 3, size) < 0.2, -torch.inf)
    x[1, 2, 2:] = -torch.inf  # fewer than asked for
    x[0, 0, -1] = 9.0
    index = highest(x, 5)
    assert torch.equal(x.gather(-1, index), x.topk(min(5, size)).values)
    assert all(len(set(row)) == len(row) for row in index.flatten(0, 1).tolist())
