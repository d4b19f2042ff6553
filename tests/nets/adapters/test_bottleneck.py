"""Adapters: the golden arrays, the invariants on every net with batches of mixed conditions, and freezing."""

import pytest
import torch
from references.cached import assert_cached_equals_full
from references.golden import golden

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets import DECODERS, ENCODERS
from espnet_diverse.nets.adapters.bottleneck import Adapters, freeze_base
from espnet_diverse.nets.condition_rows import ConditionRows
from espnet_diverse.scope import scope

BY_LANGUAGE = {"by": "lang", "conditions": {"lang": ["ar", "de", "el"]}, "bottleneck": 4}
BY_DIRECTION = {
    "by": ["lang", "tgtlang"],
    "conditions": {"lang": ["ar", "de", "el"], "tgtlang": ["en", "fr"]},
    "combinations": [["ar", "en"], ["el", "fr"]],
}
SMALL = {"output_size": 16, "attention_heads": 2, "num_blocks": 2}
ENCODER_OPTIONS = {
    "diverse_transformer": SMALL | {"linear_units": 24},
    "diverse_conformer": SMALL | {"linear_units": 24, "cnn_module_kernel": 3, "rel_pos_type": "latest"},
    "diverse_e_branchformer": SMALL | {"cgmlp_linear_units": 24, "cgmlp_conv_kernel": 3, "rel_pos_type": "latest"},
}
ENCODER_OPTIONS["diverse_branchformer"] = ENCODER_OPTIONS["diverse_e_branchformer"]


def encoder(name="diverse_transformer", adapter=BY_LANGUAGE):
    torch.manual_seed(0)
    return ENCODERS[name](20, adapter=adapter, **ENCODER_OPTIONS[name]).double().eval()


def decoder(adapter=BY_LANGUAGE, **options):
    torch.manual_seed(0)
    sizes = {"attention_heads": 2, "linear_units": 24, "num_blocks": 2}
    return DECODERS["diverse_transformer"](11, 16, adapter=adapter, **sizes, **options).double().eval()


def disturb(net):
    """Draw the weights of all adapters, which otherwise pass their input on unchanged."""
    for module in net.modules():
        if isinstance(module, Adapters):
            for parameter in module.parameters():
                torch.nn.init.normal_(parameter, std=0.5)
    return net


def languages(*ids):
    return scope(conditions={"lang": torch.tensor(ids)})


def test_equals_the_golden_arrays():
    arrays = golden("adapter")
    adapter = Adapters(8, ConditionRows("adapter", "lang", {"lang": ["de", "en"]}), bottleneck=4).double()
    torch.nn.init.normal_(adapter.up_weight)  # the other condition
    state = zip(("g", "b", "Wd", "bd", "Wu", "bu"), adapter.parameters(), strict=True)
    with torch.no_grad():
        for name, parameter in state:
            parameter[1] = arrays[name]
    with languages(1):
        out = adapter(arrays["x"].unsqueeze(0))
    torch.testing.assert_close(out[0], arrays["out"], rtol=1e-10, atol=1e-10)


def test_gradients():
    adapter = disturb(Adapters(5, ConditionRows("adapter", "lang", {"lang": ["de", "en"]}), bottleneck=3).double())
    with languages(0, 1, 0):
        x = torch.randn(3, 4, 5, dtype=torch.double, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, *_: adapter(x), (x, *adapter.parameters()))


@pytest.mark.parametrize("name", ENCODER_OPTIONS)
def test_fresh_adapters_change_nothing_in_an_encoder(name):
    net, base = encoder(name), encoder(name, adapter=None)
    missing, unexpected = net.load_state_dict(base.state_dict(), strict=False)
    assert missing and not unexpected and all(".adapter." in key for key in missing)
    speech, lengths = torch.randn(2, 90, 20, dtype=torch.double), torch.tensor([90, 61])
    with languages(0, 2):
        assert torch.equal(net(speech, lengths)[0], base(speech, lengths)[0])


def test_fresh_adapters_change_nothing_in_a_decoder():
    net, base = decoder(), decoder(adapter=None)
    missing, unexpected = net.load_state_dict(base.state_dict(), strict=False)
    assert missing and not unexpected and all(".adapter." in key for key in missing)
    memory, hlens = torch.randn(2, 13, 16, dtype=torch.double), torch.tensor([13, 8])
    ys, ylens = torch.randint(1, 11, (2, 6)), torch.tensor([6, 4])
    with languages(0, 2):
        assert torch.equal(net(memory, hlens, ys, ylens)[0], base(memory, hlens, ys, ylens)[0])


@pytest.mark.parametrize("name", ENCODER_OPTIONS)
def test_a_batch_of_mixed_languages_equals_its_samples_alone(name):
    net = disturb(encoder(name))
    speech, length = torch.randn(3, 90, 20, dtype=torch.double), torch.tensor([90])
    with languages(2, 0, 2):
        batch = net(speech, length.expand(3))[0]
    for row, language in enumerate((2, 0, 2)):
        with languages(language):
            torch.testing.assert_close(net(speech[row : row + 1], length)[0][0], batch[row])
    with languages(1):
        assert not torch.allclose(net(speech, length.expand(3))[0][0], batch[0])


def test_padding_changes_nothing():
    net = disturb(decoder())
    memory, ys = torch.randn(2, 13, 16, dtype=torch.double), torch.randint(1, 11, (2, 6))
    with languages(2, 0):
        batch = net(memory, torch.tensor([13, 8]), ys, torch.tensor([6, 4]))[0]
    with languages(0):
        alone = net(memory[1:, :8], torch.tensor([8]), ys[1:, :4], torch.tensor([4]))[0]
    torch.testing.assert_close(alone[0], batch[1, :4])


def test_cached_decoding_equals_the_full_pass():
    net = disturb(decoder())
    memory, ys = torch.randn(3, 13, 16, dtype=torch.double), torch.randint(1, 11, (3, 6))
    with languages(2, 0, 2):
        assert_cached_equals_full(net, memory, ys)


def test_one_language_for_all_samples_equals_it_for_each():
    net, memory, ys = disturb(decoder()), torch.randn(2, 5, 16, dtype=torch.double), torch.randint(1, 11, (2, 6))
    arguments = (memory, torch.tensor([5, 5]), ys, torch.tensor([6, 6]))
    with languages(1):
        one = net(*arguments)[0]
    with languages(1, 1):
        torch.testing.assert_close(net(*arguments)[0], one)


def test_directions_have_an_adapter_each():
    net = disturb(encoder(adapter=BY_DIRECTION))
    assert net.encoders[0].adapter.up_weight.shape == (2, 16, 256)
    speech, lengths = torch.randn(2, 40, 20, dtype=torch.double), torch.tensor([40, 40])
    with scope(conditions={"lang": torch.tensor([0, 2]), "tgtlang": torch.tensor([0, 1])}):
        both = net(speech, lengths)[0]
    with scope(conditions={"lang": torch.tensor([2]), "tgtlang": torch.tensor([1])}):
        torch.testing.assert_close(net(speech[1:], lengths[1:])[0], both[1:])


class TestFreezeBase:
    def step(self, net, *ids):
        """One step of Adam in training mode; the names of what changed, buffers too."""
        before = {name: value.clone() for name, value in net.state_dict().items()}
        optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad])
        for _ in range(2):  # the first reaches W_u and b_u alone
            with languages(*ids):
                out = net.train()(torch.randn(2, 90, 20).double(), torch.tensor([90, 61]))[0]
            optimizer.zero_grad()
            (out * torch.randn_like(out)).sum().backward()
            optimizer.step()
        return {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}

    @pytest.mark.parametrize("name", ENCODER_OPTIONS)
    def test_only_adapters_move(self, name):
        net = encoder(name)
        freeze_base(net)
        assert self.step(net, 0, 2) == {key for key in net.state_dict() if ".adapter." in key}

    def test_batch_norm_of_the_base_normalises_in_training_as_in_evaluation(self):
        net = encoder("diverse_conformer")
        freeze_base(net)
        for module in net.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        speech, lengths = torch.randn(2, 90, 20).double(), torch.tensor([90, 61])
        with languages(0, 2):
            torch.testing.assert_close(net.train()(speech, lengths)[0], net.eval()(speech, lengths)[0])

    def test_only_the_adapters_of_the_languages_in_the_batch_move(self):
        net = encoder()
        freeze_base(net)
        before = net.encoders[0].adapter.down_weight.clone()
        self.step(net, 0, 2)
        changed = (net.encoders[0].adapter.down_weight != before).flatten(1).any(1)
        assert changed.tolist() == [True, False, True]

    @pytest.mark.parametrize("adapter", [None, BY_LANGUAGE | {"freeze_base": False}])
    def test_nothing_is_frozen_unless_asked(self, adapter):
        net = encoder(adapter=adapter)
        freeze_base(net)
        assert all(parameter.requires_grad for parameter in net.parameters())
        assert "encoders.0.self_attn.linear_q.weight" in self.step(net, 0, 2)


def test_espnets_initialisation_keeps_fresh_adapters_without_effect():
    from espnet2.torch_utils.initialize import initialize

    net = encoder()
    initialize(net, "xavier_uniform")
    adapter = net.encoders[1].adapter
    assert adapter.up_weight.abs().sum() == 0 and torch.equal(adapter.norm_weight, torch.ones(3, 16).double())
    assert adapter.down_weight.abs().max() <= 0.25 and adapter.down_weight.std() > 0.1


@pytest.mark.parametrize(
    ("adapter", "text"),
    [
        (BY_LANGUAGE | {"size": 3}, "unknown option 'size' of adapter"),
        (BY_LANGUAGE | {"bottleneck": 0}, "bottleneck must be at least 1, but is 0"),
        (BY_LANGUAGE | {"bottleneck": -1}, "bottleneck must be at least 1, but is -1"),
        (BY_LANGUAGE | {"bottleneck": "8"}, "bottleneck must be a whole number, but is '8'"),
        (BY_LANGUAGE | {"bottleneck": 2.5}, "bottleneck must be a whole number, but is 2.5"),
        (BY_LANGUAGE | {"freeze_base": "no"}, "freeze_base must be true or false, but is 'no'"),
        (BY_LANGUAGE | {"conditions": {}}, "adapter: conditions has no names for lang"),
    ],
)
def test_wrong_options_are_named(adapter, text):
    with pytest.raises(ConfigError) as error:
        encoder(adapter=adapter)
    assert text in str(error.value)


def test_a_direction_without_an_adapter_is_refused():
    net = encoder(adapter=BY_DIRECTION)
    with (
        scope(conditions={"lang": torch.tensor([0]), "tgtlang": torch.tensor([1])}),
        pytest.raises(DataError, match="adapter: there is none for ar fr; known: ar en, el fr"),
    ):
        net(torch.randn(1, 40, 20).double(), torch.tensor([40]))


def test_an_encoder_whose_layers_hand_on_more_is_refused():
    options = SMALL | {"linear_units": 24, "block_size": 8, "hop_size": 4, "look_ahead": 2}
    with pytest.raises(ConfigError, match="adapters do not fit a ContextualBlockEncoderLayer.*choose a transformer"):
        ENCODERS["diverse_contextual_block_transformer"](20, adapter=BY_LANGUAGE, **options)


def test_partially_autoregressive_decoding_is_refused():
    with pytest.raises(ConfigError, match="does not apply adapters; set partial_ar to false"):
        decoder().batch_score_partially_AR(
            torch.ones(2, 3, dtype=torch.long), [None] * 2, torch.randn(2, 5, 16).double(), torch.tensor([3, 3])
        )
