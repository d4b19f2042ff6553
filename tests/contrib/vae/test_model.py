"""The loss is minus the bound, with schedule, free bits and dropped words; a code is learned; errors by their text."""

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from espnet_diverse.attention import set_updates_of_run
from espnet_diverse.contrib.vae.model import BoundOptions
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.errors import ConfigError
from espnet_diverse.scope import Step, scope


def losses(model, batch, seed=1):
    torch.manual_seed(seed)
    loss, stats, _ = model(**batch)
    return loss.squeeze(), {name: None if value is None else value.squeeze() for name, value in stats.items()}


def bound_of(model, batch, noise, replaced=None):
    """Log likelihood of each sentence at a sample, and KL_d (B, Z), by loops and torch.distributions."""
    decoder = model.decoder
    posterior = decoder.posterior(*model.encode(batch["src_text"], batch["src_text_lengths"]))
    z = posterior.mean + (posterior.log_var / 2).exp() * noise
    likelihoods = []
    for row, length in enumerate(batch["text_lengths"].tolist()):
        text = batch["text"][row, :length].tolist()
        read = [10, *text] if replaced is None else replaced[row, : length + 1].tolist()
        one = torch.tensor([1])
        scores, _ = decoder.of_codes()(z[row].view(1, 1, -1), one, torch.tensor([read]), one * (length + 1))
        log_probs = scores[0].log_softmax(-1)
        likelihoods.append(sum(log_probs[place, token] for place, token in enumerate([*text, 10])))
    own, prior = Normal(posterior.mean, (posterior.log_var / 2).exp()), Normal(torch.zeros(()), torch.ones(()))
    return torch.stack(likelihoods), kl_divergence(own, prior)


@pytest.mark.parametrize("by_token", [True, False])
def test_the_loss_of_validation_is_minus_the_bound(build, two, by_token):
    bound = {"free_bits": 3.0, "word_dropout": 0.9, "schedule": "linear"}
    model = build(model_conf={"lsm_weight": 0.0, "length_normalized_loss": by_token, "bound": bound}).eval()
    loss, stats = losses(model, two)
    noise = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    likelihood, divergence = bound_of(model, two, noise)
    total = divergence.sum() - likelihood.sum()
    torch.testing.assert_close(loss, total / (8 if by_token else 2))
    torch.testing.assert_close(stats["bound"], -total / 2)
    torch.testing.assert_close(stats["reconstruction"], -likelihood.sum() / 8)
    torch.testing.assert_close(stats["kl"], divergence.sum() / 2)
    torch.testing.assert_close(losses(model, two, seed=2)[0], loss)  # epochs are compared at equal noise
    assert stats["kl_weight"] == 1 and 0 <= stats["active_units"] <= 6 and stats["acc"] is not None


def test_free_bits_and_the_weight_of_training(build, two):
    bound = {"free_bits": 0.11, "schedule": "constant", "kl_weight": 0.5}
    model = build(model_conf={"lsm_weight": 0.0, "length_normalized_loss": False, "bound": bound})
    torch.manual_seed(1)
    noise = torch.randn(2, 6)
    likelihood, divergence = bound_of(model, two, noise)
    means = divergence.mean(0)
    assert means.min() < 0.11 < means.max()
    expected = sum(max(0.11, value) for value in means.tolist()) / 2 - likelihood.sum() / 2
    torch.testing.assert_close(losses(model, two)[0], expected)


@pytest.mark.parametrize("schedule", ["linear", "cyclical"])
def test_the_weight_of_the_divergence_follows_the_updates(build, two, schedule):
    bound = {"schedule": schedule, "kl_updates": 0.5, "cycles": 2, "kl_weight": 2.0}
    model = build(model_conf={"lsm_weight": 0.0, "bound": bound})
    set_updates_of_run(model, 16)
    found = []
    for step in range(10):
        with scope(step=Step(step, 0)):
            found.append(losses(model.train(), two)[1]["kl_weight"].item())
    rises = [step / 8 for step in range(8)] if schedule == "linear" else [0, 0.5, 1, 1] * 2
    assert found == pytest.approx([2 * share for share in [*rises, 1, 1]])
    assert losses(model.eval(), two)[1]["kl_weight"] == 2


def test_dropped_words_are_replaced_by_unk(build, two):
    bound = {"word_dropout": 1.0, "schedule": "constant"}
    model = build(model_conf={"lsm_weight": 0.0, "length_normalized_loss": False, "bound": bound})
    torch.manual_seed(1)
    noise = torch.randn(2, 6)
    likelihood, divergence = bound_of(model, two, noise, torch.tensor([[10, 1, 1, 1, 1]] * 2))
    torch.testing.assert_close(losses(model, two)[0], (divergence.sum() - likelihood.sum()) / 2)


def test_weight_0_makes_a_deterministic_autoencoder(build, two):
    model = build(model_conf={"lsm_weight": 0.0, "length_normalized_loss": False, "bound": {"kl_weight": 0.0}})
    likelihood, _ = bound_of(model, two, torch.zeros(2, 6))
    for training in (True, False):
        found = [losses(model.train(training), two, seed)[0] for seed in (1, 2)]
        torch.testing.assert_close(found, [-likelihood.sum() / 2] * 2)
    assert "reconstruction" in (stats := losses(model, two)[1]) and not {"kl", "bound"} & stats.keys()


def test_losses_of_attention_are_added(build, two):
    model = build(decoder_conf={"attention": {"core": "sma"}}).eval()
    loss, stats = losses(model, two)
    added = [name for name in stats if name.startswith("aux_")]
    assert added
    torch.testing.assert_close(loss, stats["loss_task"] + sum(stats[name] for name in added))


def test_sentences_are_found_again_from_their_codes(build, batch_of):
    """Sentences of four equal tokens of four kinds: without a code a quarter of them would be right."""
    bound = {"kl_updates": 50, "word_dropout": 0.5, "kl_weight": 0.2}
    model, random = build(model_conf={"lsm_weight": 0.0, "bound": bound}), torch.Generator().manual_seed(0)

    def batch(number):
        return batch_of([[2 + token] * 4 for token in torch.randint(0, 4, (number,), generator=random).tolist()])

    optimizer = torch.optim.Adam(model.train().parameters(), 0.003)
    for _ in range(150):
        loss, *_ = model(**batch(16))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    test = batch(32)
    _, stats = losses(model.eval(), test)
    assert stats["acc"] > 0.9 and stats["active_units"] >= 2 and -3 < stats["bound"] < -1.39  # -log 4
    with torch.no_grad():
        encoded = model.encode(test["src_text"], test["src_text_lengths"])
    found = BeamSearch(model.decoder, None, 10, of_text=True)(*encoded, SearchOptions(beam_size=1, ctc_weight=0.0))
    assert [best.tokens for (best,) in found] == test["text"].tolist()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"decoder": "diverse_transformer", "decoder_conf": {"latent": None}},
            r"model vae has no use for decoder Di.*; set",
        ),
        ({"model": "diverse"}, r"decoder vae does not fit model diverse; set model: vae"),
        ({"model_conf": {"lsm_weight": 0.1}}, r"lsm_weight must be 0 for model vae, .*, but is 0.1"),
        ({"model_conf": {"bound": {"schedule": "steps"}}}, r"schedule must be one of linear cyclical constant"),
        ({"model_conf": {"bound": {"word_dropout": 2}}}, r"word_dropout must be at least 0 and at most 1, but is 2"),
        ({"model_conf": {"consistency": {"r_drop": 1.0}}}, r"consistency does not fit VaeMTModel"),
    ],
)
def test_invalid_or_incompatible_options_are_refused(build, changes, said):
    with pytest.raises(ConfigError, match=said):
        build(**changes)


def test_the_defaults_match_the_bound():
    assert BoundOptions() == BoundOptions(1.0, "linear", 0.5, 4, 0.0, 0.0)


def test_validation_has_the_bleu_of_the_most_probable_tokens_if_asked_for(build, two):
    given = []
    model = build().eval()
    model.mt_error_calculator = lambda found, text: given.append((found, text)) or 0.25
    assert float(losses(model, two)[1]["bleu"]) == 0.25
    ((found, text),) = given
    assert found.shape == (2, 5) and text.tolist() == two["text"].tolist()
