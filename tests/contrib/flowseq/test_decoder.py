"""The parts of the bound, against their definitions; padding, batches, options."""

import math

import pytest
import torch
from torch.distributions import Normal

from espnet_diverse.contrib.flowseq.decoder import FlowDecoder, LengthPredictor
from espnet_diverse.contrib.flowseq.transformer import Source
from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.config_checks import check
from espnet_diverse.runs.tasks import MTTask

TOKENS = torch.tensor([[2, 5, 3, -1], [4, 4, 7, 1]])
LENGTHS = torch.tensor([3, 4])
FRAMES = torch.tensor([5, 3])


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


@pytest.fixture
def noise():
    return torch.randn(2, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def test_the_bound_is_made_of_posterior_prior_and_length(build, source, valid, noise):
    decoder = build().eval()
    bound = decoder(source.output, FRAMES, TOKENS, LENGTHS, noise)
    hidden = decoder.posterior(TOKENS.clamp(min=0), valid, source)
    posterior = Normal(decoder.to_mean(hidden), (decoder.to_log_var(hidden) / 2).exp())
    z = posterior.mean + posterior.stddev * noise
    density = posterior.log_prob(z).sum(-1).masked_fill(~valid, 0).sum(1)
    close(bound.divergence, density - decoder.prior.log_density(z, valid, source))
    close(bound.scores, decoder.output_layer(decoder.generator(z, valid, source)))
    close(bound.length, decoder.length.log_prob(source, LENGTHS))


def test_the_bound_is_below_the_likelihood(build, source):
    """Of one token, whose likelihood is the mean over many samples of the prior."""
    decoder, one, valid = build(0.05).eval(), Source(source.output[:1], source.valid[:1]), torch.ones(1, 1).bool()
    many = Source(*(part.expand(4000, *part.shape[1:]) for part in one))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(4000, 1, 8, dtype=torch.float64, generator=generator)
    token, all_valid = torch.tensor([[4]]), valid.expand(4000, 1)
    with torch.no_grad():
        scores = decoder._scores(decoder.prior.sample(noise, all_valid, many), all_valid, many).softmax(-1)
        likelihood = scores[..., 4].mean().log()
        given = many.output, FRAMES[:1].expand(4000), token.expand(4000, 1), torch.ones(4000).long()
        bound = decoder(*given, torch.randn(noise.shape, dtype=torch.float64, generator=generator))
        samples = bound.scores.log_softmax(-1)[:, 0, 4] - bound.divergence
    assert samples.mean() < likelihood
    torch.testing.assert_close(samples.logsumexp(0) - math.log(4000), likelihood, rtol=0, atol=0.1)


def test_padding_changes_nothing_and_a_batch_equals_its_samples(build, source, noise):
    decoder = build().eval()
    together = decoder(source.output, FRAMES, TOKENS, LENGTHS, noise)
    scores = decoder.translate(source.output, FRAMES, LENGTHS)
    other = source.output.masked_fill(~source.valid.unsqueeze(-1), -7.0)
    close(decoder(other, FRAMES, TOKENS.clamp(min=1), LENGTHS, noise).divergence, together.divergence)
    for row, (length, frames) in enumerate(zip(LENGTHS, FRAMES, strict=True)):
        at = slice(row, row + 1)
        given = source.output[at, :frames], frames.unsqueeze(0)
        alone = decoder(*given, TOKENS[at, :length], length.unsqueeze(0), noise[at, :length])
        close(alone.divergence, together.divergence[at])
        close(alone.length, together.length[at])
        close(alone.scores, together.scores[at, :length])
        close(decoder.translate(*given, length.unsqueeze(0)), scores[at, :length])


def test_a_translation_is_made_at_the_centre_of_the_prior(build, source, valid):
    decoder = build().eval()
    z = decoder.prior.sample(torch.zeros(2, 4, 8, dtype=torch.float64), valid, source)
    close(decoder.translate(source.output, FRAMES, LENGTHS), decoder._scores(z, valid, source))


@pytest.mark.parametrize("core", ["softmax", "sma", "sdma", "luna", "random_features"])
def test_gradients_reach_every_weight_with_any_core(build, source, core):
    attention = {"core": core}
    decoder = build(attention=attention, cross_attention=attention)
    torch.manual_seed(3)
    bound = decoder(source.output, FRAMES, TOKENS, LENGTHS)
    (bound.scores.logsumexp(-1).sum() + bound.divergence.sum() + bound.length.sum()).backward()
    lacking = {name for name, x in decoder.named_parameters() if x.grad is None or not x.grad.isfinite().all()}
    assert not {name for name in lacking if ".core." not in name}


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        ({"latent": 6, "groups": 4}, r"latent must be a multiple of 2 and of groups 4, but is 6"),
        ({"latent": 9, "groups": 3}, r"latent must be a multiple of 2 and of groups 3, but is 9"),
        ({"steps": 0}, r"steps must be at least 1, but is 0"),
        ({"steps": 1.5}, r"steps must be a whole number, but is 1\.5"),
        ({"scales": 2}, r"unknown option 'scales' of flow"),
    ],
)
def test_options_are_checked(flow, said):
    with pytest.raises(ConfigError, match=said):
        FlowDecoder(9, 16, attention_heads=2, flow=flow)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("decoder_conf.flow.stepz=2", r"--set .*: unknown option 'decoder_conf\.flow\.stepz'; did you mean 'steps'"),
        ("decoder_conf.input_layer=embed", r"--set .*: unknown option 'decoder_conf\.input_layer'"),
        ("model_conf.kl_update=1", r"--set .*: unknown option 'model_conf\.kl_update'; did you mean 'kl_updates'"),
    ],
)
def test_unknown_keys_are_found_before_anything_is_built(override, said):
    with pytest.raises(ConfigError, match=said):
        check(MTTask, merge(["model/mt_mini", "model/flow"], [override]))
    check(MTTask, merge(["model/mt_mini", "model/flow", "attention/sdma"]))


@pytest.fixture
def predictor():
    """A predictor of lengths."""
    torch.manual_seed(0)
    return LengthPredictor(16, 3).double()


def log_prob(predictor, source, length):
    return predictor.log_prob(source, torch.full((2,), length))


def test_the_length_is_a_distribution_over_differences_of_the_mean_frame(predictor, source):
    rows = torch.stack([source.output[0].mean(0), source.output[1, :3].mean(0)])
    expected = predictor.output(rows).log_softmax(-1)
    for difference in range(-3, 4):
        found = predictor.log_prob(source, FRAMES + difference)
        torch.testing.assert_close(found, expected[:, difference + 3])


def test_greater_differences_of_length_count_as_the_greatest(predictor, source):
    torch.testing.assert_close(predictor.log_prob(source, FRAMES + 9), predictor.log_prob(source, FRAMES + 3))
    torch.testing.assert_close(predictor.log_prob(source, FRAMES - 9), predictor.log_prob(source, FRAMES - 3))


def test_the_best_lengths_are_within_the_limits_and_have_a_token(predictor, source):
    least, greatest = torch.tensor([4, 0]), torch.tensor([7, 2])
    lengths, values = predictor.best(source, 9, least, greatest)
    assert lengths.shape == values.shape == (2, 7)
    for row, possible in enumerate([{4, 5, 6, 7}, {1, 2}]):
        kept = values[row] > -torch.inf
        assert set(lengths[row][kept].tolist()) == possible
        assert (lengths[row][~kept] == 1).all()
        assert (values[row].diff()[: len(possible) - 1] <= 0).all()
        for length, value in zip(lengths[row][kept].tolist(), values[row][kept], strict=True):
            torch.testing.assert_close(value, log_prob(predictor, source, length)[row])
    assert torch.equal(predictor.best(source, 1, least, greatest)[0], lengths[:, :1])
