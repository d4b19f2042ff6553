"""The decoder reads the encoder's output through the code alone; search equals a loop; errors."""

import pytest
import torch

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.errors import ConfigError

CORES = ["softmax", "sdma", "lambda_attention", "talking_heads"]


@pytest.fixture
def encoded(build, two):
    """A model in evaluation, and encoder output and lengths of the batch."""

    def of(**changes):
        model = build(**changes).eval()
        with torch.no_grad():
            return model.decoder, *model.encode(two["src_text"], two["src_text_lengths"])

    return of


def test_the_posterior_matches_the_mean_over_positions(encoded):
    decoder, source, lengths = encoded()
    found = decoder.posterior(source, lengths)
    for row, length in enumerate(lengths.tolist()):
        mean = source[row, :length].mean(0)
        expected = decoder.to_posterior.weight @ mean + decoder.to_posterior.bias
        torch.testing.assert_close(torch.cat([found.mean[row], found.log_var[row]]), expected)


def test_padding_changes_nothing(encoded):
    decoder, source, lengths = encoded()
    other = source.clone()
    other[0, 3:] = 50.0
    for one, two in zip(decoder.posterior(source, lengths), decoder.posterior(other, lengths), strict=True):
        torch.testing.assert_close(one, two)
    torch.testing.assert_close(decoder.shorten(source, lengths), decoder.shorten(other, lengths))


def test_without_a_mask_every_position_counts_in_half_precision(encoded):
    decoder, source, _ = encoded()
    source = torch.zeros(1, 301, source.size(-1), dtype=torch.bfloat16)  # which has no number 301
    source[:, -1] = 300.0
    expected, _ = decoder.bfloat16().shorten(source, torch.tensor([301]))
    found, mask = decoder.shorten_masked(source, None)
    assert torch.equal(found, expected) and mask.all()


def test_the_source_is_the_mean_of_the_posterior(encoded):
    """Scores given the encoder's output and given the code are equal; another code gives others."""
    decoder, source, lengths = encoded()
    read, counts = torch.tensor([[10, 4, 3], [10, 7, 2]]), torch.tensor([3, 3])
    codes, one = decoder.posterior(source, lengths).mean.unsqueeze(1), torch.ones_like(lengths)
    scores, _ = decoder(source, lengths, read, counts)
    given, _ = decoder.of_codes()(codes, one, read, counts)
    torch.testing.assert_close(given, scores)
    other, _ = decoder.of_codes()(codes + 1, one, read, counts)
    assert not torch.allclose(other, scores)
    assert not decoder.reads_codes


@pytest.mark.parametrize("core", CORES)
def test_batched_search_with_the_cache_equals_a_loop(encoded, core):
    attention = {"attention": {"core": core}, "cross_attention": {"core": core}}
    decoder, source, lengths = encoded(decoder_conf=attention)
    decoder.output_layer.bias.data[10] -= 10.0  # or most texts would be empty
    options = SearchOptions(beam_size=1, ctc_weight=0.0, maxlenratio=-6)
    found = BeamSearch(decoder, None, 10, of_text=True)(source, lengths, options)
    for row, (best,) in enumerate(found):
        assert len(best.tokens) == 6
        tokens = [10]
        for _ in range(len(best.tokens)):
            count = torch.tensor([len(tokens)])
            one = source[row : row + 1, : lengths[row]], lengths[row : row + 1]
            tokens.append(int(decoder(*one, torch.tensor([tokens]), count)[0][0, -1].argmax()))
        assert tokens[1:] == best.tokens


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"latent": {"size": 0}}, r"size must be at least 1, but is 0"),
        ({"latent": {"width": 8}}, r"unknown option 'width' of latent"),
        ({"cross_memory": {"kind": "xl"}}, r"decoder vae reads the latent code alone; leave out cross_memory"),
    ],
)
def test_invalid_or_incompatible_options_are_refused(build, changes, said):
    with pytest.raises(ConfigError, match=said):
        build(decoder_conf=changes)
