"""Scores of hypotheses that share a tree of prefixes, against ESPnet's pass over each whole prefix."""

import pytest
import torch

from espnet_diverse.decoding.encoder.precision import set_precision
from espnet_diverse.decoding.options import PRECISIONS
from espnet_diverse.decoding.search import prefix_tree
from espnet_diverse.decoding.search.scorers import DecoderScorer, LanguageModelScorer
from espnet_diverse.nets.language_model import DiverseTransformerLM
from espnet_diverse.scope import scope

EOS = 29


def full(net, prefixes, source):
    """log p of the next token by ESPnet's pass over prefixes (W, L) from a source (T, M)."""
    if isinstance(net, DiverseTransformerLM):
        return net(prefixes, None)[0][:, -1].log_softmax(-1)
    count = len(prefixes)
    lengths = torch.full((count,), len(source)), torch.full((count,), prefixes.size(1))
    scores, _ = net(source.expand(count, -1, -1), lengths[0], prefixes, lengths[1])
    return scores[:, -1].log_softmax(-1)


CORES = {
    "softmax": {"core": "softmax"},
    "luna": {"core": "luna", "length": 4},  # a core whose cache has features of the keys
    "lambda": {"core": "lambda_attention"},  # and cores that need sums over the keys alone
    "positive": {"core": "random_features", "n_features": 64},
    "trigonometric": {"core": "random_features", "n_features": 64, "feature": "trigonometric"},
}
SUMMED = ("lambda", "positive", "trigonometric")


def scorer_of(build, core, kind):
    """A net with a core everywhere, and its scorer."""
    if kind == "decoder":
        net = build(attention=CORES[core], cross_attention=CORES[core])[0]
        return net, DecoderScorer(net)
    sizes = {"embed_unit": 16, "att_unit": 32, "head": 2, "unit": 64, "layer": 2}
    net = DiverseTransformerLM(30, "sinusoidal", attention=CORES[core], **sizes).eval()
    return net, LanguageModelScorer(net)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", ["decoder", "language model"])
def test_scores_after_any_pruning_match_the_whole_prefix(build, kind, core, monkeypatch):
    monkeypatch.setattr(prefix_tree, "_TIDY_EVERY", 3)
    torch.manual_seed(4)
    net, scorer = scorer_of(build, core, kind)
    source, rows = torch.randn(3, 11, 32), torch.arange(3)
    tokens = torch.full((3, 1), EOS)
    prefixes = tokens.unsqueeze(-1)
    with torch.no_grad():
        scorer.begin(source, None)
        for step in range(10):
            scores = scorer.score(tokens)
            for row, utterance in enumerate(rows.tolist()):
                torch.testing.assert_close(scores[row], full(net, prefixes[row], source[utterance]), rtol=0, atol=1e-4)
            parents = torch.randint(tokens.size(1), (len(rows), 1 + step % 4))
            tokens = torch.randint(1, EOS, parents.shape)
            prefixes = prefixes.gather(1, parents.unsqueeze(-1).expand(-1, -1, step + 1))
            prefixes = torch.cat([prefixes, tokens.unsqueeze(-1)], -1)
            if step == 4:
                kept = torch.tensor([2, 0])
                scorer.keep(kept)
                rows, parents, tokens, prefixes = rows[kept], parents[kept], tokens[kept], prefixes[kept]
            scorer.extend(parents)


@pytest.mark.parametrize("core", CORES)
def test_a_batch_of_padded_sources_is_scored_as_its_utterances(build, core, monkeypatch):
    monkeypatch.setattr(prefix_tree, "_TIDY_EVERY", 2)
    torch.manual_seed(4)
    net, scorer = scorer_of(build, core, "decoder")
    source, lengths = torch.randn(3, 11, 32), (11, 7, 1)
    mask = torch.arange(11) < torch.tensor(lengths).view(3, 1, 1)
    tokens, prefixes = torch.full((3, 1), EOS), torch.full((3, 1, 1), EOS)
    with torch.no_grad():
        scorer.begin(source, mask)
        for _ in range(9):
            scores = scorer.score(tokens)
            for row, length in enumerate(lengths):
                expected = full(net, prefixes[row], source[row, :length])
                torch.testing.assert_close(scores[row], expected, rtol=0, atol=1e-4)
            parents = torch.randint(tokens.size(1), (3, 4))
            tokens = torch.randint(1, EOS, parents.shape)
            prefixes = prefixes.gather(1, parents.unsqueeze(-1).expand(-1, -1, prefixes.size(-1)))
            prefixes = torch.cat([prefixes, tokens.unsqueeze(-1)], -1)
            scorer.extend(parents)


@pytest.mark.parametrize("core", SUMMED)
@pytest.mark.parametrize("apart", [False, True])
def test_a_step_reads_as_many_keys_after_any_number_of_tokens(build, core, apart, monkeypatch):
    """Also where the hypotheses never have a common prefix."""
    monkeypatch.setattr(prefix_tree, "_TIDY_EVERY", 4)
    net, scorer = scorer_of(build, core, "decoder")
    held, read = [], []
    for layer in net.decoders:
        layer.self_attn.core.register_forward_hook(lambda core, given, out: read.append(given[0].k.size(2)))
        layer.src_attn.core.register_forward_hook(lambda core, given, out: held.append(given[0].k.size(2)))
    tokens, parents = torch.ones(2, 5, dtype=torch.long), torch.arange(5) if apart else torch.tensor([0, 0, 1, 1, 2])
    with torch.no_grad():
        scorer.begin(torch.randn(2, 11, 32), None)
        for step in range(32):
            scorer.score(tokens)
            scorer.extend(parents.expand(2, -1))
            assert not apart or step < 8 or {nodes.sums.state.size(2) for nodes in scorer.nodes} == {5}
    assert max(read) == max(read[:20]) <= 8 * 5 and set(held) == {0}


def test_nodes_that_no_hypothesis_needs_are_removed(build, monkeypatch):
    monkeypatch.setattr(prefix_tree, "_TIDY_EVERY", 5)
    scorer = DecoderScorer(build()[0])
    with torch.no_grad():
        scorer.begin(torch.randn(2, 11, 32), None)
        for _ in range(10):
            scorer.score(torch.ones(2, 4, dtype=torch.long))
            scorer.extend(torch.zeros(2, 4, dtype=torch.long))
    assert scorer.behind.shape == (2, 4, 10) and scorer.behind.all()
    assert {nodes.count for nodes in scorer.nodes} == {10}


def test_heads_of_one_task_are_chosen_once(build, monkeypatch):
    monkeypatch.setattr(prefix_tree, "_COMBINATIONS_KEPT", 2)
    selection = {"strategy": "group", "pool": 8, "conditions": {"lang": ["ar", "de", "fr"]}}
    decoder = build(attention={"selection": selection})[0]
    before = {name: parameter.clone() for name, parameter in decoder.named_parameters()}
    scorer, used = DecoderScorer(decoder), {}
    with torch.no_grad():
        for language in (0, 1, 0, 2):
            with scope({"lang": torch.tensor([language])}, collect=False):
                scorer.begin(torch.randn(2, 11, 32), None)
            assert not any(attention.selects() for attention in scorer.chosen)
            assert used.setdefault(language, scorer.chosen) is scorer.chosen
        with scope({"lang": torch.tensor([0, 1])}, collect=False):
            scorer.begin(torch.randn(2, 11, 32), None)
    assert all(attention.selects() for attention in scorer.chosen)
    assert len(scorer._of_combination) == 1  # of those before, the third task took the place
    assert before.keys() == dict(decoder.named_parameters()).keys()
    assert all(before[name].equal(parameter) for name, parameter in decoder.named_parameters())


@pytest.mark.parametrize("strategy", ["group", "subset", "static"])
@pytest.mark.parametrize("kind", ["attention", "cross_attention", "language model"])
def test_a_batch_of_one_task_is_scored_as_its_utterances(build, kind, strategy):
    """The ids of a batch are those of each of its utterances, as a predictor gives them."""
    selection = {"strategy": strategy, "conditions": {"lang": ["ar", "de", "fr"], "domain": ["news", "talk"]}}
    selection |= {"by": ["lang"]} if strategy == "static" else {"pool": 8, "by": ["lang", "domain"]}
    if kind == "language model":
        sizes = {"embed_unit": 16, "att_unit": 32, "head": 4, "unit": 64, "layer": 2}
        net = DiverseTransformerLM(30, "sinusoidal", attention={"selection": selection}, **sizes).eval()
    else:
        net = build(**{kind: {"selection": selection}})[0]
    source, tokens, found = torch.randn(3, 11, 32), torch.tensor([[3, 7], [7, 4], [5, 5]]), []
    for rows in ([0, 1, 2], [0], [1], [2]):
        scorer = (LanguageModelScorer if kind == "language model" else DecoderScorer)(net)  # nothing is chosen yet
        conditions = {"lang": torch.full((len(rows),), 1), "domain": torch.full((len(rows),), 0)}
        with torch.no_grad(), scope(conditions, collect=False):
            scorer.begin(source[rows], None)
            found.append(scorer.score(tokens[rows]))
    assert not any(attention.selects() for attention in scorer.chosen)
    torch.testing.assert_close(found[0], torch.cat(found[1:]), rtol=0, atol=1e-5)


def test_a_mask_of_heads_holds_for_one_batch(build):
    selection = {"strategy": "group", "pool": 8, "conditions": {"lang": ["ar", "de"]}}
    decoder = build(attention={"selection": selection})[0]
    scorer, source, masked = DecoderScorer(decoder), torch.randn(1, 11, 32), decoder.decoders[0].self_attn
    heads = masked.selection.picks()[0]
    scores = []
    with torch.no_grad(), scope({"lang": torch.tensor([0])}, collect=False):
        for mask in (None, torch.arange(8) != heads[2], None, torch.ones(8, dtype=torch.bool)):
            masked.head_mask = mask
            scorer.begin(source, None)
            scores.append(scorer.score(torch.full((1, 1), EOS)))
    assert not torch.allclose(scores[0], scores[1])
    for unmasked in scores[2:]:
        torch.testing.assert_close(unmasked, scores[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("selects", ["attention", "cross_attention"])
def test_heads_of_one_task_in_any_precision(build, precision, selects):
    selection = {"strategy": "group", "pool": 8, "conditions": {"lang": ["ar", "de", "fr"]}}
    decoder = build(**{selects: {"selection": selection}})[0]
    scorer, source = DecoderScorer(decoder), torch.randn(2, 11, 32)
    set_precision([decoder, scorer.attention], precision)
    scores = []
    with torch.no_grad():
        for languages in ([1], [1, 2]):  # one task, and the same beside another
            with scope({"lang": torch.tensor(languages)}, collect=False):
                scorer.begin(source[: len(languages)], None)
                scores.append(scorer.score(torch.full((len(languages), 1), EOS))[0])
    torch.testing.assert_close(*scores, rtol=0, atol={"float32": 1e-4, "int8": 0.2, "bfloat16": 0.2}[precision])
