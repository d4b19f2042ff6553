"""The start tag: the first input embedding of the decoder is that of the sample's target language."""

import pytest
import torch
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from references.cached import assert_cached_equals_full

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets import DiverseTransformerDecoder
from espnet_diverse.scope import scope

TAG = {"by": "tgtlang", "conditions": {"tgtlang": ["en", "es", "fr"]}}
SIZES = {"attention_heads": 2, "linear_units": 24, "num_blocks": 2}
SOS = 10


def decoder(start_tag=TAG, **options):
    torch.manual_seed(0)
    return DiverseTransformerDecoder(11, 16, start_tag=start_tag, **SIZES, **options).double().eval()


def to(*ids):
    return scope(conditions={"tgtlang": torch.tensor(ids)})


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    ys = torch.cat([torch.full((3, 1), SOS), torch.randint(1, 10, (3, 5))], dim=1)
    return torch.randn(3, 13, 16, dtype=torch.double), torch.tensor([13, 8, 9]), ys, torch.tensor([6, 4, 5])


def test_the_only_new_name_in_the_state_dict_is_the_tag():
    theirs, ours = TransformerDecoder(11, 16, **SIZES).state_dict(), decoder().state_dict()
    assert set(ours) - set(theirs) == {"embed.0.start.weight"} and set(theirs) <= set(ours)
    assert ours["embed.0.start.weight"].shape == (3, 16)


def test_a_tag_equal_to_sos_is_espnets_decoder(inputs):
    theirs = TransformerDecoder(11, 16, **SIZES).double().eval()
    ours = decoder()
    weights = theirs.state_dict()
    ours.load_state_dict(weights | {"embed.0.start.weight": weights["embed.0.weight"][[SOS] * 3]})
    with scope(conditions={"tgtlang": torch.tensor([0, 2, 1])}, keep_attention=True):
        assert torch.equal(ours(*inputs)[0], theirs(*inputs)[0])


def test_each_sample_begins_with_the_tag_of_its_language(inputs):
    net = decoder()
    with to(0, 2, 0):
        embedded = net.embed[0](inputs[2])
    assert torch.equal(embedded[:, 0], net.embed[0].start.weight[[0, 2, 0]])
    assert torch.equal(embedded[:, 1:], net.embed[0].weight[inputs[2][:, 1:]])


def test_a_batch_of_mixed_languages_equals_its_samples_alone(inputs):
    net = decoder()
    memory, hlens, ys, ylens = inputs
    with to(0, 2, 0):
        batch = net(*inputs)[0]
    for row, language in enumerate((0, 2, 0)):
        one = slice(row, row + 1)
        with to(language):
            alone = net(memory[one, : hlens[row]], hlens[one], ys[one, : ylens[row]], ylens[one])[0]
        torch.testing.assert_close(alone[0], batch[row, : ylens[row]])
    with to(1):
        assert not torch.allclose(net(*inputs)[0], batch)


def test_cached_decoding_equals_the_full_pass(inputs):
    net = decoder()
    memory, _, ys, _ = inputs
    with to(2):
        assert_cached_equals_full(net, memory, ys)


def test_gradients_reach_the_tags_of_the_batch_and_not_sos(inputs):
    net = decoder()
    with to(0, 2, 0):
        net(*inputs)[0].square().sum().backward()
    assert net.embed[0].start.weight.grad.abs().sum(1).ne(0).tolist() == [True, False, True]
    assert net.embed[0].weight.grad[SOS].abs().sum() == 0


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ({}, "start_tag: the tgtlang of each sample is needed and was not given (given: none); known: en, es, fr"),
        ({"tgtlang": [0, 1]}, "start_tag: the tgtlang of 2 samples was given for a batch of 3; known: en, es, fr"),
        ({"tgtlang": [3]}, "start_tag: condition index out of range; known: en, es, fr"),
    ],
)
def test_unknown_and_missing_languages_are_named(inputs, conditions, text):
    with (
        scope(conditions={condition: torch.tensor(ids) for condition, ids in conditions.items()}),
        pytest.raises(DataError) as error,
    ):
        decoder()(*inputs)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("tag", "options", "text"),
    [
        (
            {"by": "tgtlang"},
            {},
            "start_tag: conditions has no names for tgtlang; training fills them in from utt2tgtlang",
        ),
        (TAG | {"token": "<en>"}, {}, "unknown option 'token' of start_tag"),
        (TAG, {"input_layer": "linear"}, "start_tag needs a decoder that embeds tokens; set its input_layer to embed"),
    ],
)
def test_wrong_options_are_named(tag, options, text):
    with pytest.raises(ConfigError, match=text.replace(".", r"\.")):
        decoder(tag, **options)


def test_options_are_shown_to_espnets_print_config():
    from espnet2.utils.get_default_kwargs import get_default_kwargs

    assert {"adapter", "start_tag", "cross_attention"} <= set(get_default_kwargs(DiverseTransformerDecoder))
