"""Codes, bound and texts of a small autoencoder: equality with loops, files, errors."""

import json
from math import log

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.directory import latent as module
from espnet_diverse.decoding.directory.latent import Autoencoder, cells, line, measure
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import DataError, ModelError

OPTIONS = SearchOptions(beam_size=1, batch_size=2, maxlenratio=-12)
TEXTS = {"u1": "abc", "u2": "b", "u3": "cabba"}


@pytest.fixture
def model(tiny_autoencoder):
    return Autoencoder(tiny_autoencoder.model_dir, None, OPTIONS)


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/text").write_text("".join(f"{name} {text}\n" for name, text in TEXTS.items()))
    return tmp_path / "data"


def by_loops(model, samples):
    """Likelihood (K,), divergence and log weights (K,) of each text, one by one, with the noise of seed 0."""
    noise = torch.randn(3, samples, model.size, generator=torch.Generator().manual_seed(0))
    for text, drawn in zip(TEXTS.values(), noise, strict=True):
        posterior = model.posterior([text])
        own = Normal(posterior.mean[0], (posterior.log_var[0] / 2).exp())
        prior = Normal(torch.zeros(model.size), 1.0)
        tokens, likelihoods, weights = [*model.predictor.tokens.encode(text), model.eos], [], []
        for eps in drawn:
            z, one = own.loc + own.scale * eps, torch.tensor([1])
            read = torch.tensor([[model.eos, *tokens[:-1]]])
            with torch.inference_mode():
                scores = model.of_codes(z.view(1, 1, -1), one, read, one * len(tokens))[0][0].log_softmax(-1)
            likelihoods.append(sum(scores[place, token] for place, token in enumerate(tokens)))
            weights.append(likelihoods[-1] + (prior.log_prob(z) - own.log_prob(z)).sum())
        yield torch.stack(likelihoods), kl_divergence(own, prior).sum(), torch.stack(weights), len(tokens)


@pytest.mark.parametrize("tokens", [1, 4000])
def test_the_bound_matches_loops(model, data_dir, tmp_path, monkeypatch, tokens):
    monkeypatch.setattr(module, "BATCH_TOKENS", tokens)
    numbers = measure(model, data_dir, tmp_path / "out", samples=4)
    each = list(by_loops(model, 4))
    likelihood = [rows.mean().item() for rows, *_ in each]
    kl = [divergence.item() for _, divergence, *_ in each]
    assert numbers["reconstruction"] == pytest.approx(-sum(likelihood) / sum(row[3] for row in each), abs=1e-4)
    assert numbers["kl"] == pytest.approx(sum(kl) / 3, abs=1e-4)
    assert numbers["bound"] == pytest.approx((sum(likelihood) - sum(kl)) / 3, abs=1e-3)
    weighted = sum((weights.logsumexp(0) - log(4)).item() for *_, weights, _ in each) / 3
    assert numbers["importance_weighted_bound"] == pytest.approx(weighted, abs=1e-3)
    assert json.loads((tmp_path / "out/latent.json").read_text()) == numbers
    assert "importance_weighted_bound" not in measure(model, data_dir, tmp_path / "out")


def test_batches_are_limited_in_tokens(model, data_dir, tmp_path, monkeypatch):
    sizes, posterior = [], model.posterior
    monkeypatch.setattr(module, "BATCH_TOKENS", 6)
    monkeypatch.setattr(model, "posterior", lambda texts: sizes.append(len(texts)) or posterior(texts))
    measure(model, data_dir, tmp_path / "out")
    assert sizes == [1, 2]  # cabba; abc and b


def test_texts_of_codes_are_searched_on_one_device(model, monkeypatch):
    devices = []

    def search(source, lengths, options):
        devices.extend([source.device.type, lengths.device.type])
        return [[]] * len(lengths)

    monkeypatch.setattr(model, "search", search)
    monkeypatch.setattr(model, "device", "meta")
    assert model.samples(2) == ["", ""] and devices == ["meta", "meta"]


def test_codes_match_the_posteriors(model, data_dir, tmp_path):
    numbers = measure(model, data_dir, tmp_path / "out")
    with np.load(tmp_path / "out/codes.npz", allow_pickle=False) as codes:
        assert codes["utterances"].tolist() == list(TEXTS)
        for row, text in enumerate(TEXTS.values()):
            mean, log_var = model.posterior([text])
            np.testing.assert_allclose(codes["mean"][row], mean[0], atol=1e-5)
            np.testing.assert_allclose(codes["log_var"][row], log_var[0], atol=1e-5)
        assert numbers["active_units"] == (codes["mean"].var(0) > 0.01).sum() and numbers["units"] == 6


def test_the_line_between_two_texts_begins_and_ends_with_their_reconstructions(model, monkeypatch):
    first, last = (model.texts(model.posterior([text]).mean)[0] for text in ("abc", "cabba"))
    between = model.between("abc", "cabba", 5)
    assert len(between) == 5 and (between[0], between[-1]) == (first, last)
    assert (
        model.texts(model.posterior(["abc"]).mean)[0]
        == model.predictor.batch([model.predictor.read("abc")[0]], [{}], OPTIONS)[0][0].text
    )  # as `decode` reconstructs
    start, end = (model.posterior([text]).mean[0] for text in ("abc", "cabba"))
    limits = []
    monkeypatch.setattr(model, "texts", lambda codes, limit: limits.append(limit) or list(codes))
    codes = model.between("abc", "cabba", 5)
    model.between("abc", "a" * 80, 2)
    assert limits == [100, 170]
    torch.testing.assert_close(torch.stack(codes[::2]), torch.stack([start, (start + end) / 2, end]), rtol=0, atol=1e-6)
    assert (start - end).abs().max() > 1e-3


def test_samples_depend_on_the_seed(model):
    drawn = model.samples(3, seed=1)
    codes = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
    assert drawn == [model.texts(code.unsqueeze(0))[0] for code in codes]


def test_a_deterministic_autoencoder_has_no_bound(model, data_dir, tmp_path):
    model.deterministic = True
    numbers = measure(model, data_dir, tmp_path / "out", samples=3)
    assert numbers.keys() == {"texts", "reconstruction", "active_units", "units"}
    total = sum(model.likelihood([text], model.posterior([text]).mean)[0].item() for text in TEXTS.values())
    assert numbers["reconstruction"] == pytest.approx(-total / sum(len(text) + 1 for text in TEXTS.values()), abs=1e-4)
    assert cells(numbers)[2:4] == ["", ""] and "bound" not in line(numbers)


def test_the_line_of_text():
    numbers = {"texts": 3, "reconstruction": 1.5, "kl": 2.0, "bound": -9.5, "active_units": 4, "units": 6}
    assert line(numbers) == "3 texts: reconstruction 1.500 nats a token, KL 2.00, bound -9.50; 4 of 6 units active"
    assert cells(numbers) == ["3", "1.500", "2.00", "-9.50", "4"]


def test_a_model_without_codes_is_refused(tiny_translation):
    with pytest.raises(ModelError, match="the model has no latent codes; give a run with model: vae"):
        Autoencoder(tiny_translation.model_dir)


def test_an_empty_text_is_refused(model, data_dir, tmp_path):
    (data_dir / "text").write_text("")
    with pytest.raises(DataError, match="text: is empty"):
        measure(model, data_dir, tmp_path / "out")


def test_a_model_with_conditions_is_refused(tiny_autoencoder, monkeypatch):
    of_predictor = "espnet_diverse.decoding.predictor.known_conditions"
    monkeypatch.setattr(of_predictor, lambda model: KnownConditions({"tgtlang": ["de"]}))
    with pytest.raises(ModelError, match="depends on tgtlang, which latent does not read"):
        Autoencoder(tiny_autoencoder.model_dir)
