"""The language model at the softmax-equivalent setting equals ESPnet's."""

import pytest
import torch
from references.espnet_twin import pair

from espnet_diverse.attention import Core, Supports, register_core, registry
from espnet_diverse.attention.modifiers.position import POSITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.language_model import DiverseTransformerLM
from espnet_diverse.nets.memory import MEMORIES
from espnet_diverse.runs.config import merge
from espnet_diverse.scope import scope

OPTIONS = {"embed_unit": 8, "att_unit": 16, "head": 2, "unit": 24, "layer": 2}


def test_language_model_equals_espnet():
    reference, net = pair(DiverseTransformerLM, 11, **OPTIONS)
    ys = torch.randint(1, 11, (2, 6))
    with scope(keep_attention=True):
        assert torch.equal(net(ys, None)[0], reference(ys, None)[0])


@pytest.mark.parametrize("core", ["sma", "sdma"])
def test_another_core_sees_no_later_token(core):
    torch.manual_seed(0)
    net = DiverseTransformerLM(11, attention={"core": core}, **OPTIONS).double().eval()
    ys = torch.randint(1, 11, (2, 6))
    changed = ys.clone()
    changed[:, 4:] = 1 + changed[:, 4:] % 10
    first, second = net(ys, None)[0], net(changed, None)[0]
    torch.testing.assert_close(first[:, :4], second[:, :4])
    assert not torch.allclose(first[:, 4:], second[:, 4:])


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        ({"core": "sdmaa"}, "unknown attention 'sdmaa'; did you mean 'sdma'"),
        ({"core": "sma", "clusters": 3}, "unknown option 'clusters' of attention 'sma'"),
    ],
)
def test_unknown_attention_and_option_are_refused(attention, said):
    with pytest.raises(ConfigError, match=said):
        DiverseTransformerLM(11, attention=attention, **OPTIONS)


class TestWithMemory:
    def build(self, **memory):
        torch.manual_seed(0)
        given = {"segment": 4, "slots": 4} | memory
        return DiverseTransformerLM(11, pos_enc="sinusoidal", memory=given, **OPTIONS).double().eval()

    @pytest.mark.parametrize("scope", ["layer", "shared"])
    @pytest.mark.parametrize("kind", MEMORIES)
    def test_no_token_sees_a_later_one(self, kind, scope):
        net, ys = self.build(kind=kind, scope=scope), torch.randint(1, 11, (2, 14))
        for changed_at in (6, 9):
            changed = ys.clone()
            changed[:, changed_at] = 1 + changed[:, changed_at] % 10
            first, second = net(ys, None)[0], net(changed, None)[0]
            torch.testing.assert_close(first[:, :changed_at], second[:, :changed_at], rtol=1e-12, atol=1e-12)
            assert not torch.allclose(first[:, changed_at:], second[:, changed_at:])

    @pytest.mark.parametrize("kind", MEMORIES)
    def test_an_earlier_segment_reaches_later_ones(self, kind):
        net, ys = self.build(kind=kind), torch.randint(1, 11, (2, 14))
        changed = ys.clone()
        changed[:, 2] = 1 + changed[:, 2] % 10
        assert not torch.allclose(net(ys, None)[0][:, 4:8], net(changed, None)[0][:, 4:8])

    @pytest.mark.parametrize("position", [None, *POSITIONS])
    def test_first_in_first_out_with_a_slot_for_each_token_is_attention_to_the_whole_text(self, position):
        """In evaluation: slots are inputs of the layer, and distances go across segments."""
        torch.manual_seed(0)
        given = {"pos_enc": "sinusoidal", "attention": {"position": position} if position else None, **OPTIONS}
        memory = {"kind": "xl", "segment": 4, "slots": 14}
        net, plain = (DiverseTransformerLM(11, memory=each, **given).double().eval() for each in (memory, None))
        plain.load_state_dict(net.state_dict())
        ys = torch.randint(1, 11, (2, 14))
        torch.testing.assert_close(net(ys, None)[0], plain(ys, None)[0], rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("kind", MEMORIES)
    def test_padding_changes_nothing(self, kind):
        net, ys = self.build(kind=kind), torch.randint(1, 11, (2, 14))
        ys[1, 6:] = 0
        torch.testing.assert_close(net(ys, None)[0][1, :6], net(ys[1:, :6], None)[0][0], rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("memory", [{"kind": "cdt"}, None])
    def test_scores_of_prefixes_equal_the_full_pass(self, memory):
        net = self.build(**memory) if memory else DiverseTransformerLM(11, **OPTIONS).double().eval()
        ys = torch.randint(1, 11, (2, 10))
        full, states, state = net(ys, None)[0].log_softmax(-1), [None, None], None
        for length in range(1, 11):
            scores, states = net.batch_score(ys[:, :length], states, None)
            one, state = net.score(ys[0, :length], state, None)
            torch.testing.assert_close(scores, full[:, length - 1])
            torch.testing.assert_close(one, full[0, length - 1])

    def test_a_core_that_is_not_for_keys_of_another_sequence_is_refused(self, monkeypatch):
        monkeypatch.setattr(registry, "_registered", {})

        @register_core("own")
        class Own(Core):
            supports = Supports(causal=True)

        said = "attention 'own' does not support cross-attention, which a memory needs; choose one that does: softmax"
        with pytest.raises(ConfigError, match=said):
            DiverseTransformerLM(11, attention={"core": "own"}, memory={"kind": "xl"}, **OPTIONS)

    @pytest.mark.parametrize(
        ("fragments", "memory", "attention", "millions"),
        [
            (["memory/lm_xl"], {}, {"position": "transformer_xl"}, 151.0),  # 151 in Table 4 of the CDT paper
            (["memory/lm_cdt"], {"scope": "shared"}, {"position": "transformer_xl"}, 152.2),  # 153 in the table
            (["memory/lm_cdt"], {"scope": "layer"}, {"position": "transformer_xl"}, 169.9),
            ([], {}, {"core": "bigbird"}, 148.3),  # 156, sparse transformer
        ],
    )
    def test_sizes_of_the_papers_models_for_wikitext_103(self, fragments, memory, attention, millions):
        """With one table of 267,735 words for embedding and output layer, the vocabulary of Transformer-XL."""
        options = merge(["model/lm_16x410", *fragments])["lm_conf"]
        if memory:
            options["memory"] |= memory
        with torch.device("meta"):
            net = DiverseTransformerLM(11, **options, attention=attention)
        words = net.embed.weight.numel() + net.decoder.weight.numel() + net.decoder.bias.numel()
        inner = sum(each.numel() for each in net.parameters()) - words
        assert (inner + 267_735 * 410) / 1e6 == pytest.approx(millions, abs=0.05)
