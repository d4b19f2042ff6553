"""Translation in one pass: the lengths, the tokens and the ranking, against one hypothesis at a time."""

import shutil

import pytest
import torch
import yaml

from espnet_diverse.contrib.flowseq.decoder import FlowDecoder
from espnet_diverse.contrib.flowseq.transformer import Source
from espnet_diverse.decoding.espnet.espnet_search import load_search
from espnet_diverse.decoding.options import SearchOptions, check_search
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.one_pass import OnePassSearch
from espnet_diverse.errors import ConfigError

EOS = 11
FRAMES = torch.tensor([5, 3])


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    flow = {"latent": 8, "steps": 1, "posterior_blocks": 1, "most_difference": 3}
    net = FlowDecoder(EOS + 1, 16, attention_heads=2, linear_units=16, num_blocks=1, flow=flow).double().eval()
    for parameter in net.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    net.output_layer.bias.data[[0, EOS]] += 2.0  # which must not be chosen all the same
    return net


@pytest.fixture(scope="module")
def encoded():
    return torch.randn(2, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def oracle(decoder, encoded, length, penalty=0.0, length_penalty=0.0):
    """The translation of `length` tokens of one sentence (1, S, M), and its score."""
    frames, count = torch.tensor([encoded.size(1)]), torch.tensor([length])

    def log_probs(scores):
        kept = scores[0].clone()
        kept[:, [0, EOS]] = -torch.inf
        return kept.log_softmax(-1)

    tokens = log_probs(decoder.translate(encoded, frames, count)).argmax(-1)
    bound = decoder(encoded, frames, tokens.unsqueeze(0), count, noise=torch.zeros(1, length, 8).double())
    total = sum(log_probs(bound.scores)[t, token] for t, token in enumerate(tokens))
    total = total - bound.divergence[0] + bound.length[0] + penalty * length
    return tokens.tolist(), float(total / (length + 1) ** length_penalty)


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"penalty": 3.0}, {"length_penalty": 1.0}, {"nbest": 2}])
def test_hypotheses_are_ranked_by_the_bound(decoder, encoded, options):
    found = OnePassSearch(decoder, EOS)(encoded, FRAMES, SearchOptions(beam_size=4, **{"nbest": 4} | options))
    shown = {name: value for name, value in options.items() if name != "nbest"}
    for row, frames in enumerate(FRAMES.tolist()):
        one = encoded[row : row + 1, :frames]
        source = Source.of(one, torch.tensor([frames]))
        lengths, _ = decoder.length.best(source, 4, torch.tensor([0]), torch.tensor([99]))
        expected = sorted((oracle(decoder, one, n, **shown) for n in lengths[0].tolist()), key=lambda x: -x[1])
        best = found[row]
        assert [each.tokens for each in best] == [tokens for tokens, _ in expected[: len(best)]]
        assert len(best) == options.get("nbest", 4)
        for each, (_, score) in zip(best, expected, strict=False):
            assert each.score == pytest.approx(score, abs=1e-8)
        assert not {0, EOS} & {token for each in best for token in each.tokens}


@torch.no_grad()
def test_a_single_length_is_scored_at_the_centre_of_the_prior(decoder, encoded):
    found = OnePassSearch(decoder, EOS)(encoded, FRAMES, SearchOptions(beam_size=1))
    source = Source.of(encoded, FRAMES)
    lengths, values = decoder.length.best(source, 1, FRAMES * 0, FRAMES * 99)
    scores = decoder.translate(encoded, FRAMES, lengths[:, 0])
    scores[..., [0, EOS]] = -torch.inf
    best, tokens = scores.log_softmax(-1).max(-1)
    for row, (each,) in enumerate(found):
        count = int(lengths[row, 0])
        assert each.tokens == tokens[row, :count].tolist()
        assert each.score == pytest.approx(float(values[row, 0] + best[row, :count].sum()), abs=1e-8)


@torch.no_grad()
def test_lengths_keep_the_limits_of_the_search(decoder, encoded):
    search = OnePassSearch(decoder, EOS)
    found = search(encoded, FRAMES, SearchOptions(beam_size=9, nbest=9, minlenratio=-3, maxlenratio=-4))
    assert [sorted(len(each.tokens) for each in best) for best in found] == [[3, 4], [3, 4]]
    assert search(encoded, FRAMES, SearchOptions(minlenratio=-50, maxlenratio=-60)) == [[], []]


@pytest.mark.parametrize("search", ["sampling", "espnet", "greedy"])
def test_a_search_token_by_token_is_refused(search):
    said = rf"search={search} is not possible: the model is non-autoregressive and translates in one pass; set search="
    with pytest.raises(ConfigError, match=said):
        check_search({"model": "flow"}, SearchOptions(search=search))
    check_search({"model": "flow"}, SearchOptions())
    check_search({"model": "diverse"}, SearchOptions(search=search))


@pytest.mark.parametrize(("load", "search"), [(load_predictor, "sampling"), (load_search, "espnet")])
def test_it_is_refused_when_the_model_is_loaded(tiny_translation, tmp_path, load, search):
    run = shutil.copytree(tiny_translation.model_dir, tmp_path / "exp", ignore=shutil.ignore_patterns("stats"))
    config = yaml.safe_load((run / "config.yaml").read_text()) | {"model": "flow"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError, match="the model is non-autoregressive"):
        load(run, options=SearchOptions(search=search))
