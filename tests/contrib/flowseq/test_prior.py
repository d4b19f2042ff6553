"""The prior is a density: invertible, with the determinant of its Jacobian, given the source."""

import math

import pytest
import torch

from espnet_diverse.contrib.flowseq.transformer import Source
from espnet_diverse.functional.flows import normal_log_density


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_samples_map_back_to_their_noise(build, source, valid):
    prior = build().eval().prior
    noise = torch.randn(2, 4, 8, dtype=torch.float64).masked_fill(~valid.unsqueeze(-1), 0)
    z = prior.sample(noise, valid, source)
    for step in prior.steps:
        z, _ = step(z, valid, source)
    close(z, noise)


def test_the_density_has_the_determinant_of_the_jacobian(build, source):
    prior = build().eval().prior
    one, valid = Source(source.output[:1], source.valid[:1]), torch.ones(1, 3, dtype=torch.bool)
    z = prior.sample(torch.randn(1, 3, 8, dtype=torch.float64), valid, one).detach()

    def mapped(z):
        for step in prior.steps:
            z, _ = step(z, valid, one)
        return z

    jacobian = torch.autograd.functional.jacobian(mapped, z).reshape(24, 24)
    normal = -0.5 * (mapped(z).square().sum() + 24 * math.log(2 * math.pi))
    close(prior.log_density(z, valid, one), (normal + torch.linalg.slogdet(jacobian).logabsdet).unsqueeze(0))


def test_padding_changes_nothing_and_a_batch_equals_its_samples(build, source, valid):
    prior = build().eval().prior
    z = torch.randn(2, 4, 8, dtype=torch.float64)
    together = prior.log_density(z, valid, source)
    close(prior.log_density(z.masked_fill(~valid.unsqueeze(-1), 9.0), valid, source), together)
    for row, (length, frames) in enumerate([(3, 5), (4, 3)]):
        one = Source(source.output[row : row + 1, :frames], source.valid[row : row + 1, :frames])
        alone = valid[row : row + 1, :length]
        close(prior.log_density(z[row : row + 1, :length], alone, one), together[row : row + 1])
        sampled = prior.sample(z[row : row + 1, :length], alone, one)
        close(sampled, prior.sample(z, valid, source)[row : row + 1, :length])


@pytest.mark.parametrize("init", [None, "xavier_uniform"])
def test_it_begins_as_a_rotation(source, valid, init):
    from espnet2.torch_utils.initialize import initialize

    from espnet_diverse.contrib.flowseq.decoder import FlowDecoder

    prior = FlowDecoder(9, 16, attention_heads=2, num_blocks=1).prior.eval().double()
    if init is not None:
        initialize(prior, init)
    z = torch.randn(2, 4, 64, dtype=torch.float64)
    zero = torch.zeros_like(z)
    close(prior.log_density(z, valid, source), normal_log_density(z, zero, zero, valid))
